//! YCSB's property files: reading them, and what they mean.
//!
//! The files are Java's: `name=value`, `name: value` or `name value` a line, `#` and `!` for comments, a
//! backslash at the end of a line to go on, and its escapes. A property given with `-p` overrides the files;
//! of several files, later ones override earlier ones.
//!
//! Every property that the core workload knows is understood, or refused with a reason. Those that are about
//! the Java program (its exporters, its database classes) are passed over with a warning, and so are unknown
//! ones: a misspelt name should not pass in silence.
//!
//! What it does not do: run anything.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::distribution::THETA;

/// A property file or a property that cannot be used as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertyError {
    /// A line that is no property.
    #[error("line {line}: {reason}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// `-p` without a `=`.
    #[error("-p {0}: a property is written name=value")]
    Argument(String),
    /// A value that the property cannot have.
    #[error("property {name}={value}: {reason}")]
    Value {
        /// The property.
        name: String,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Properties by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    values: BTreeMap<String, String>,
}

impl Properties {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds those of a file's text, over what is there.
    pub fn read(&mut self, text: &str) -> Result<(), PropertyError> {
        let mut lines = text.lines().enumerate();
        while let Some((number, first)) = lines.next() {
            let mut line = first.trim_start().to_owned();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            // An odd number of backslashes at the end joins the next line on, without its leading blanks.
            while line.chars().rev().take_while(|&c| c == '\\').count() % 2 == 1 {
                line.pop();
                let Some((_, next)) = lines.next() else { break };
                line.push_str(next.trim_start());
            }
            let (name, value) = split(&line);
            let unescaped = |text: &str| {
                unescape(text).map_err(|reason| PropertyError::Line { line: number + 1, reason })
            };
            let name = unescaped(name)?;
            if name.is_empty() {
                return Err(PropertyError::Line { line: number + 1, reason: "it has no name".into() });
            }
            self.values.insert(name, unescaped(value)?);
        }
        Ok(())
    }

    /// Sets one from `name=value`.
    pub fn set_argument(&mut self, argument: &str) -> Result<(), PropertyError> {
        match argument.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                self.set(name.trim(), value.trim());
                Ok(())
            }
            _ => Err(PropertyError::Argument(argument.into())),
        }
    }

    /// Sets one.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.into(), value.into());
    }

    /// Its value, if it is set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn parsed<T: FromStr>(&self, name: &str, default: T, wanted: &str) -> Result<T, PropertyError> {
        match self.get(name) {
            None => Ok(default),
            Some(value) => {
                value.trim().parse().map_err(|_| wrong(name, value, format!("{wanted} is wanted")))
            }
        }
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, PropertyError> {
        self.parsed(name, default, "a whole number, not negative,")
    }

    fn share(&self, name: &str, default: f64) -> Result<f64, PropertyError> {
        let share: f64 = self.parsed(name, default, "a number from 0 to 1")?;
        if (0.0..=1.0).contains(&share) {
            Ok(share)
        } else {
            Err(wrong(name, &share.to_string(), "a number from 0 to 1 is wanted"))
        }
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, PropertyError> {
        match self.get(name).map(str::trim) {
            None => Ok(default),
            Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
            Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
            Some(value) => Err(wrong(name, value, "true or false is wanted")),
        }
    }

    fn one_of<T: Copy>(&self, name: &str, default: T, names: &[(&str, T)]) -> Result<T, PropertyError> {
        let Some(value) = self.get(name).map(str::trim) else { return Ok(default) };
        match names.iter().find(|(known, _)| *known == value) {
            Some((_, chosen)) => Ok(*chosen),
            None => {
                let known: Vec<&str> = names.iter().map(|(known, _)| *known).collect();
                Err(wrong(name, value, format!("one of {} is wanted", known.join(", "))))
            }
        }
    }
}

fn wrong(name: &str, value: &str, reason: impl Into<String>) -> PropertyError {
    PropertyError::Value { name: name.into(), value: value.into(), reason: reason.into() }
}

/// Parts a line at the first `=`, `:` or blank that no backslash stands before.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line
        .char_indices()
        .find(|&(_, c)| {
            let ends = !escaped && (c == '=' || c == ':' || c.is_whitespace());
            escaped = c == '\\' && !escaped;
            ends
        })
        .map_or(line.len(), |(at, _)| at);
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    (name, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start())
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.trim_end().chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('f') => plain.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                let c = code.and_then(char::from_u32);
                plain.push(c.ok_or_else(|| format!("\\u{digits} is no character"))?);
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    Ok(plain)
}

/// How the next key is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDistribution {
    /// Each as likely as any other.
    Uniform,
    /// YCSB's scrambled Zipfian.
    Zipfian,
    /// The newest are the likeliest.
    Latest,
    /// A share of the operations on a share of the data.
    Hotspot,
    /// One after the other.
    Sequential,
    /// The newest are the likeliest, exponentially.
    Exponential,
}

impl fmt::Display for RequestDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RequestDistribution::Uniform => "uniform",
            RequestDistribution::Zipfian => "zipfian",
            RequestDistribution::Latest => "latest",
            RequestDistribution::Hotspot => "hotspot",
            RequestDistribution::Sequential => "sequential",
            RequestDistribution::Exponential => "exponential",
        })
    }
}

/// How the length of a scan is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLengths {
    /// Each as likely as any other.
    Uniform,
    /// Short ones are likelier.
    Zipfian,
}

/// How key numbers become keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertOrder {
    /// By hash, so that neighbours in number are far apart in order.
    Hashed,
    /// As they are.
    Ordered,
}

impl InsertOrder {
    const NAMES: [(&str, InsertOrder); 2] =
        [("hashed", InsertOrder::Hashed), ("ordered", InsertOrder::Ordered)];

    /// What `insertorder` says, if it is there, and nothing else is: all that the papers' variants take.
    ///
    /// # Errors
    /// Another property, or a value that it does not have.
    pub fn alone(properties: &Properties) -> Result<Option<InsertOrder>, PropertyError> {
        match properties.values.keys().find(|name| *name != "insertorder") {
            Some(other) => {
                let value = properties.get(other).unwrap_or_default();
                Err(wrong(other, value, "this preset takes insertorder only, which is hashed or ordered"))
            }
            None if properties.values.is_empty() => Ok(None),
            None => properties.one_of("insertorder", InsertOrder::Ordered, &Self::NAMES).map(Some),
        }
    }
}

/// The core workload's settings. The names are YCSB's.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreSpec {
    /// `recordcount`: rows that there are before the run.
    pub record_count: u64,
    /// `operationcount`: operations to run; 0 is as many as the time allows.
    pub operation_count: u64,
    /// `fieldcount`: fields of a row.
    pub field_count: usize,
    /// `fieldlength`: bytes of a field.
    pub field_bytes: usize,
    /// `readallfields`: whether a read is of all fields, or of one.
    pub read_all_fields: bool,
    /// `writeallfields`: whether an update is of all fields, or of one.
    pub write_all_fields: bool,
    /// `readproportion`.
    pub read: f64,
    /// `updateproportion`.
    pub update: f64,
    /// `insertproportion`.
    pub insert: f64,
    /// `scanproportion`.
    pub scan: f64,
    /// `readmodifywriteproportion`.
    pub read_modify_write: f64,
    /// `requestdistribution`.
    pub request_distribution: RequestDistribution,
    /// `minscanlength`.
    pub scan_length_min: u64,
    /// `maxscanlength`.
    pub scan_length_max: u64,
    /// `scanlengthdistribution`.
    pub scan_lengths: ScanLengths,
    /// `insertorder`.
    pub insert_order: InsertOrder,
    /// `zeropadding`: digits that a key has at least.
    pub zero_padding: usize,
    /// `hotspotdatafraction`.
    pub hotspot_data: f64,
    /// `hotspotopnfraction`.
    pub hotspot_operations: f64,
    /// `exponential.percentile`.
    pub exponential_percentile: f64,
    /// `exponential.frac`.
    pub exponential_share: f64,
    /// The skew of `zipfian` and `latest`: YCSB's constant unless `zipfianconstant` says otherwise.
    pub theta: f64,
}

impl Default for CoreSpec {
    /// What YCSB takes where nothing is said, with a million records.
    fn default() -> Self {
        CoreSpec {
            record_count: 1_000_000,
            operation_count: 0,
            field_count: 10,
            field_bytes: 100,
            read_all_fields: true,
            write_all_fields: false,
            read: 0.95,
            update: 0.05,
            insert: 0.0,
            scan: 0.0,
            read_modify_write: 0.0,
            request_distribution: RequestDistribution::Uniform,
            scan_length_min: 1,
            scan_length_max: 1000,
            scan_lengths: ScanLengths::Uniform,
            insert_order: InsertOrder::Hashed,
            zero_padding: 1,
            hotspot_data: 0.2,
            hotspot_operations: 0.8,
            exponential_percentile: 95.0,
            exponential_share: 0.857_142_857_1,
            theta: THETA,
        }
    }
}

/// Properties of YCSB's program rather than of the workload.
/// The most rows of a scan: how often each length is drawn is worked out one by one.
const SCAN_LENGTH_MAX: u64 = 10_000_000;

const ABOUT_THE_PROGRAM: &[&str] = &[
    "core_workload_insertion_retry_interval",
    "core_workload_insertion_retry_limit",
    "db",
    "dotransactions",
    "exporter",
    "exportfile",
    "fieldnameprefix",
    "histogram.buckets",
    "insertcount",
    "label",
    "maxexecutiontime",
    "measurement.interval",
    "measurement.trackjvm",
    "measurementtype",
    "status.interval",
    "table",
    "target",
    "threadcount",
    "timeseries.granularity",
    "workload",
];

impl CoreSpec {
    /// What the properties say, and warnings about those that were passed over.
    pub fn from_properties(properties: &Properties) -> Result<(CoreSpec, Vec<String>), PropertyError> {
        let default = CoreSpec::default();
        if let Some(class) = properties.get("workload")
            && !class.trim().ends_with("CoreWorkload")
        {
            return Err(wrong("workload", class, "only the core workload is known"));
        }
        if let Some(lengths) = properties.get("fieldlengthdistribution")
            && lengths.trim() != "constant"
        {
            return Err(wrong("fieldlengthdistribution", lengths, "only constant lengths are supported"));
        }
        if properties.flag("dataintegrity", false)? {
            return Err(wrong("dataintegrity", "true", "not supported; histories check more (bench append)"));
        }
        if let Some(start) = properties.get("insertstart")
            && start.trim() != "0"
        {
            return Err(wrong("insertstart", start, "rows are numbered from 0"));
        }
        let theta: f64 = properties.parsed("zipfianconstant", THETA, "a number between 0 and 1")?;
        let spec = CoreSpec {
            record_count: properties.number("recordcount", default.record_count)?,
            operation_count: properties.number("operationcount", default.operation_count)?,
            field_count: properties.parsed("fieldcount", default.field_count, "a whole number")?,
            field_bytes: properties.parsed("fieldlength", default.field_bytes, "a whole number")?,
            read_all_fields: properties.flag("readallfields", default.read_all_fields)?,
            write_all_fields: properties.flag("writeallfields", default.write_all_fields)?,
            read: properties.share("readproportion", default.read)?,
            update: properties.share("updateproportion", default.update)?,
            insert: properties.share("insertproportion", default.insert)?,
            scan: properties.share("scanproportion", default.scan)?,
            read_modify_write: properties.share("readmodifywriteproportion", default.read_modify_write)?,
            request_distribution: properties.one_of(
                "requestdistribution",
                default.request_distribution,
                &[
                    ("uniform", RequestDistribution::Uniform),
                    ("zipfian", RequestDistribution::Zipfian),
                    ("latest", RequestDistribution::Latest),
                    ("hotspot", RequestDistribution::Hotspot),
                    ("sequential", RequestDistribution::Sequential),
                    ("exponential", RequestDistribution::Exponential),
                ],
            )?,
            scan_length_min: properties.number("minscanlength", default.scan_length_min)?,
            scan_length_max: properties.number("maxscanlength", default.scan_length_max)?,
            scan_lengths: properties.one_of(
                "scanlengthdistribution",
                default.scan_lengths,
                &[("uniform", ScanLengths::Uniform), ("zipfian", ScanLengths::Zipfian)],
            )?,
            insert_order: properties.one_of("insertorder", default.insert_order, &InsertOrder::NAMES)?,
            zero_padding: properties.parsed("zeropadding", default.zero_padding, "a whole number")?,
            hotspot_data: properties.share("hotspotdatafraction", default.hotspot_data)?,
            hotspot_operations: properties.share("hotspotopnfraction", default.hotspot_operations)?,
            exponential_percentile: properties.parsed(
                "exponential.percentile",
                default.exponential_percentile,
                "a number from 0 to 100",
            )?,
            exponential_share: properties.share("exponential.frac", default.exponential_share)?,
            theta,
        };
        spec.check()?;
        Ok((spec, warnings(properties)))
    }

    /// That the settings go together.
    pub fn check(&self) -> Result<(), PropertyError> {
        let bytes = self.field_count.checked_mul(self.field_bytes);
        if self.field_count == 0 || bytes.is_none_or(|bytes| bytes > 1 << 24) {
            let value = format!("{} and fieldlength={}", self.field_count, self.field_bytes);
            return Err(wrong("fieldcount", &value, "a row has at least one field and at most 16 MiB"));
        }
        if self.record_count == 0 {
            return Err(wrong("recordcount", "0", "at least one record is wanted"));
        }
        if self.zero_padding > 100 {
            return Err(wrong("zeropadding", &self.zero_padding.to_string(), "at most 100 digits"));
        }
        if self.scan_length_min > self.scan_length_max || self.scan_length_max == 0 {
            let value = self.scan_length_max.to_string();
            return Err(wrong("maxscanlength", &value, "at least 1, and no less than minscanlength"));
        }
        if self.scan_length_max > SCAN_LENGTH_MAX {
            let value = self.scan_length_max.to_string();
            return Err(wrong("maxscanlength", &value, "at most 10000000 rows"));
        }
        if self.operations().iter().all(|(share, _)| *share <= 0.0) {
            return Err(wrong("readproportion", "0", "at least one proportion must be more than 0"));
        }
        if !(self.theta > 0.0 && self.theta < 1.0) {
            let value = self.theta.to_string();
            return Err(wrong(
                "zipfianconstant",
                &value,
                "a number between 0 and 1, both excluded, is wanted",
            ));
        }
        if !(self.exponential_percentile > 0.0 && self.exponential_percentile < 100.0)
            || self.exponential_share <= 0.0
        {
            let value = self.exponential_percentile.to_string();
            return Err(wrong("exponential.percentile", &value, "between 0 and 100, of a share above 0"));
        }
        Ok(())
    }

    /// The operations with their proportions, which need not add up to 1: as in YCSB they are weights.
    pub fn operations(&self) -> [(f64, Operation); 5] {
        [
            (self.read, Operation::Read),
            (self.update, Operation::Update),
            (self.insert, Operation::Insert),
            (self.scan, Operation::Scan),
            (self.read_modify_write, Operation::ReadModifyWrite),
        ]
    }
}

/// What an operation of the core workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a row, or one field of it.
    Read,
    /// Overwrites a row, or one field of it.
    Update,
    /// Adds a row.
    Insert,
    /// Reads rows from a key on.
    Scan,
    /// Reads a row, then overwrites it or a field of it.
    ReadModifyWrite,
}

fn warnings(properties: &Properties) -> Vec<String> {
    const KNOWN: &[&str] = &[
        "dataintegrity",
        "exponential.frac",
        "exponential.percentile",
        "fieldcount",
        "fieldlength",
        "fieldlengthdistribution",
        "hotspotdatafraction",
        "hotspotopnfraction",
        "insertorder",
        "insertproportion",
        "insertstart",
        "maxscanlength",
        "minscanlength",
        "operationcount",
        "readallfields",
        "readmodifywriteproportion",
        "readproportion",
        "recordcount",
        "requestdistribution",
        "scanlengthdistribution",
        "scanproportion",
        "updateproportion",
        "workload",
        "writeallfields",
        "zeropadding",
        "zipfianconstant",
    ];
    let names = properties.values.keys().filter(|name| !KNOWN.contains(&name.as_str()));
    names
        .map(|name| {
            if ABOUT_THE_PROGRAM.contains(&name.as_str()) || name.starts_with("hdrhistogram.") {
                format!("property {name} is about YCSB's own program and is passed over")
            } else {
                format!("property {name} is not known and is passed over")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(text: &str) -> Properties {
        let mut properties = Properties::new();
        properties.read(text).unwrap();
        properties
    }

    #[test]
    fn the_syntax_is_java_s() {
        let read = properties(
            "# a comment\n! another\n\n a = 1 \nb:2\nc 3\nd\ne\\=f=g\\u0041\\n\nlong=one,\\\n   two\na=4\n",
        );
        let expected = [("a", "4"), ("b", "2"), ("c", "3"), ("d", ""), ("e=f", "gA\n"), ("long", "one,two")];
        assert_eq!(read.values.len(), expected.len());
        for (name, value) in expected {
            assert_eq!(read.get(name), Some(value), "{name}");
        }
        let mut bad = Properties::new();
        assert_eq!(bad.read("x=1\ny=\\u12").unwrap_err().to_string(), "line 2: \\u12 is no character");
        assert_eq!(bad.read("=1").unwrap_err().to_string(), "line 1: it has no name");
        assert_eq!(bad.set_argument("x").unwrap_err().to_string(), "-p x: a property is written name=value");
        bad.set_argument("x = 2").unwrap();
        assert_eq!(bad.get("x"), Some("2"));
    }

    #[test]
    fn the_core_files_say_what_ycsb_s_say() {
        let core = |letter| crate::ycsb::core_spec(letter).unwrap();
        for letter in 'a'..='f' {
            assert_eq!(core(letter).record_count, 1_000_000);
            let (spec, warnings) = CoreSpec::from_properties(&properties(
                crate::ycsb::CORE_FILES.iter().find(|(known, _)| *known == letter).unwrap().1,
            ))
            .unwrap();
            assert_eq!(warnings, [""; 0]);
            let sum: f64 = spec.operations().iter().map(|(share, _)| share).sum();
            assert_eq!(sum, 1.0, "{letter}");
        }
        assert_eq!((core('a').read, core('a').update), (0.5, 0.5));
        assert_eq!((core('b').read, core('b').update), (0.95, 0.05));
        assert_eq!(core('c').read, 1.0);
        assert_eq!((core('d').insert, core('d').request_distribution), (0.05, RequestDistribution::Latest));
        assert_eq!((core('e').scan, core('e').insert, core('e').scan_length_max), (0.95, 0.05, 100));
        assert_eq!((core('f').read, core('f').read_modify_write), (0.5, 0.5));
        assert!(crate::ycsb::core_spec('g').is_none());
    }

    #[test]
    fn bad_values_are_one_clear_error_and_unknown_names_a_warning() {
        let error = |text: &str| CoreSpec::from_properties(&properties(text)).unwrap_err().to_string();
        assert_eq!(
            error("recordcount=many"),
            "property recordcount=many: a whole number, not negative, is wanted"
        );
        assert_eq!(error("readproportion=2"), "property readproportion=2: a number from 0 to 1 is wanted");
        assert_eq!(
            error("readproportion=NaN"),
            "property readproportion=NaN: a number from 0 to 1 is wanted"
        );
        assert!(error("requestdistribution=zipf").contains("one of uniform, zipfian, latest"));
        assert!(error("workload=com.example.Mine").contains("only the core workload"));
        assert!(error("readproportion=0\nupdateproportion=0").contains("at least one proportion"));
        assert!(error("fieldcount=0").contains("at least one field"));
        assert!(error("fieldlength=99999999999999").contains("16 MiB"));
        assert!(error("readallfields=yes").contains("true or false"));
        assert!(error("maxscanlength=0").contains("at least 1"));
        assert!(error("maxscanlength=18446744073709551615").contains("at most 10000000 rows"));
        let (_, warnings) = CoreSpec::from_properties(&properties("readpropotion=1\ntarget=5\n")).unwrap();
        assert_eq!(
            warnings,
            [
                "property readpropotion is not known and is passed over",
                "property target is about YCSB's own program and is passed over"
            ]
        );
    }
}
