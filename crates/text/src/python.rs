//! Values as Python prints them: `str`, `repr` and `json.dumps`, because chat templates were written for it.
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write;

/// Most bytes a rendered text may have.
pub const MAX_OUTPUT: usize = 64 << 20;
const MAX_DEPTH: usize = 200;

fn refuse(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

fn check(out: &str, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(refuse("the value is nested too deeply to be written"));
    }
    if out.len() > MAX_OUTPUT {
        return Err(refuse("the template writes more than 64 MiB"));
    }
    Ok(())
}

/// `repr(float)`: the shortest digits that read back equal, in Python's layout.
fn write_float(out: &mut String, x: f64, json: bool) {
    if !x.is_finite() {
        out.push_str(match (x.is_nan(), x > 0.0, json) {
            (true, _, true) => "NaN",
            (true, _, false) => "nan",
            (_, true, true) => "Infinity",
            (_, false, true) => "-Infinity",
            (_, true, false) => "inf",
            (_, false, false) => "-inf",
        });
        return;
    }
    let scientific = format!("{x:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let fixed = format!("{x}");
        out.push_str(&fixed);
        if !fixed.contains('.') {
            out.push_str(".0");
        }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
    }
}

fn write_number(out: &mut String, v: &Value, json: bool) {
    match f64::try_from(v.clone()) {
        Ok(x) if !v.is_integer() => write_float(out, x, json),
        _ => {
            let _ = write!(out, "{v}");
        }
    }
}

/// `str(v)`; an undefined value is empty.
pub fn str_of(v: &Value) -> Result<String, Error> {
    let mut out = String::new();
    match v.kind() {
        ValueKind::Undefined => {}
        ValueKind::String => out.push_str(v.as_str().unwrap_or_default()),
        _ => write_repr(&mut out, v, 0)?,
    }
    Ok(out)
}

fn printable(c: char) -> bool {
    !(c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}' | '\u{e0000}'..='\u{e0fff}'
            | '\u{f0000}'..='\u{10ffff}'))
}

fn write_repr_str(out: &mut String, s: &str) {
    let quote = if s.contains('\'') && !s.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in s.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if printable(c) => out.push(c),
            c => {
                let n = c as u32;
                let _ = match n {
                    0..=0xff => write!(out, "\\x{n:02x}"),
                    0x100..=0xffff => write!(out, "\\u{n:04x}"),
                    _ => write!(out, "\\U{n:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

fn write_repr(out: &mut String, v: &Value, depth: usize) -> Result<(), Error> {
    check(out, depth)?;
    match v.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::Bool => out.push_str(if v.is_true() { "True" } else { "False" }),
        ValueKind::Number => write_number(out, v, false),
        ValueKind::String => write_repr_str(out, v.as_str().unwrap_or_default()),
        ValueKind::Map => {
            out.push('{');
            for (i, key) in v.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &key, depth + 1)?;
                out.push_str(": ");
                write_repr(out, &v.get_item(&key)?, depth + 1)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in v.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &item, depth + 1)?;
            }
            out.push(']');
        }
        _ => {
            let _ = write!(out, "{v}");
        }
    }
    Ok(())
}

/// The arguments of `json.dumps` that chat templates use.
pub struct Dumps {
    pub ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

impl Dumps {
    pub fn write(&self, v: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.value(&mut out, v, 0)?;
        Ok(out)
    }

    fn string(&self, out: &mut String, s: &str) {
        out.push('"');
        for c in s.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ascii && (c as u32) >= 0x7f && c != '\u{7f}') => {
                    let mut units = [0u16; 2];
                    for unit in c.encode_utf16(&mut units) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }

    fn line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    }

    fn value(&self, out: &mut String, v: &Value, depth: usize) -> Result<(), Error> {
        check(out, depth)?;
        match v.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if v.is_true() { "true" } else { "false" }),
            ValueKind::Number => write_number(out, v, true),
            ValueKind::String => self.string(out, v.as_str().unwrap_or_default()),
            ValueKind::Map => {
                let mut keys: Vec<Value> = v.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                out.push('{');
                for (i, key) in keys.iter().enumerate() {
                    if i > 0 {
                        out.push_str(&self.item_separator);
                    }
                    self.line(out, depth + 1);
                    match key.kind() {
                        ValueKind::String => self.string(out, key.as_str().unwrap_or_default()),
                        ValueKind::Bool | ValueKind::None | ValueKind::Number => {
                            out.push('"');
                            self.value(out, key, depth + 1)?;
                            out.push('"');
                        }
                        _ => {
                            return Err(refuse(
                                "tojson: a mapping's key must be a string or a number",
                            ))
                        }
                    }
                    out.push_str(&self.key_separator);
                    self.value(out, &v.get_item(key)?, depth + 1)?;
                }
                if !keys.is_empty() {
                    self.line(out, depth);
                }
                out.push('}');
            }
            ValueKind::Seq | ValueKind::Iterable => {
                out.push('[');
                let mut any = false;
                for item in v.try_iter()? {
                    if any {
                        out.push_str(&self.item_separator);
                    }
                    any = true;
                    self.line(out, depth + 1);
                    self.value(out, &item, depth + 1)?;
                }
                if any {
                    self.line(out, depth);
                }
                out.push(']');
            }
            ValueKind::Undefined => return Err(refuse("tojson: the value is undefined")),
            _ => return Err(refuse("tojson: the value has no JSON form")),
        }
        Ok(())
    }
}

fn list<'a>(parts: impl IntoIterator<Item = &'a str>) -> Value {
    parts.into_iter().map(Value::from).collect()
}

/// Python's methods that the compatibility crate does not have, then that crate's.
pub fn method(
    state: &minijinja::State,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let (Some(s), Some(first)) = (value.as_str(), args.first().map(|a| a.as_str())) {
        match (name, first) {
            ("removeprefix", Some(p)) => return Ok(Value::from(s.strip_prefix(p).unwrap_or(s))),
            ("removesuffix", Some(p)) => return Ok(Value::from(s.strip_suffix(p).unwrap_or(s))),
            ("partition", Some(p)) if !p.is_empty() => {
                let parts = s.split_once(p).map_or([s, "", ""], |(a, c)| [a, p, c]);
                return Ok(list(parts));
            }
            ("rpartition", Some(p)) if !p.is_empty() => {
                let parts = s.rsplit_once(p).map_or(["", "", s], |(a, c)| [a, p, c]);
                return Ok(list(parts));
            }
            ("rsplit", Some(p)) if !p.is_empty() => {
                let most = args.get(1).and_then(|n| n.as_i64()).filter(|n| *n >= 0);
                let mut parts: Vec<&str> = match most {
                    Some(n) => s.rsplitn(n as usize + 1, p).collect(),
                    None => s.rsplit(p).collect(),
                };
                parts.reverse();
                return Ok(list(parts));
            }
            _ => {}
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}
