//! Hides the texts of special tokens inside untrusted input behind stand-ins: the first character of such a text is
//! exchanged for a private-use character that occurs nowhere else. Lengths in characters stay as they were.
use crate::abi::Fallible;
use serde_json::Value;
use std::collections::BTreeMap;

pub struct Hider<'a> {
    /// By first character: the stand-in and the special texts that begin so.
    by_first: BTreeMap<char, (char, Vec<&'a str>)>,
}

/// Calls `visit` with every string of `v`, keys included.
fn each_string(v: &Value, visit: &mut impl FnMut(&str)) {
    match v {
        Value::String(s) => visit(s),
        Value::Array(list) => list.iter().for_each(|item| each_string(item, visit)),
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            visit(key);
            each_string(item, visit);
        }),
        _ => {}
    }
}

impl<'a> Hider<'a> {
    pub fn new(specials: &'a [String], template: &str, inputs: &[&Value]) -> Fallible<Self> {
        let mut used: Vec<char> = Vec::new();
        let mut note = |s: &str| used.extend(s.chars().filter(|c| *c >= '\u{f0000}'));
        note(template);
        inputs.iter().for_each(|v| each_string(v, &mut note));
        used.sort_unstable();
        let mut free = ('\u{f0000}'..='\u{ffffd}').filter(|c| used.binary_search(c).is_err());
        let mut by_first: BTreeMap<char, (char, Vec<&str>)> = BTreeMap::new();
        for text in specials {
            let Some(first) = text.chars().next() else {
                continue;
            };
            if let Some((_, texts)) = by_first.get_mut(&first) {
                texts.push(text);
                continue;
            }
            let stand_in = free
                .next()
                .ok_or("the input uses every private-use character")?;
            by_first.insert(first, (stand_in, vec![text]));
        }
        Ok(Hider { by_first })
    }

    pub fn stand_ins(&self) -> Vec<(char, char)> {
        self.by_first
            .iter()
            .map(|(first, (stand_in, _))| (*stand_in, *first))
            .collect()
    }

    fn text(&self, s: &str) -> Option<String> {
        let mut out: Option<String> = None;
        let mut copied = 0;
        for (at, c) in s.char_indices() {
            let Some((stand_in, texts)) = self.by_first.get(&c) else {
                continue;
            };
            let rest = &s[at..];
            // The end of one string and the beginning of the next could spell a special token together.
            let begins =
                |t: &&str| rest.starts_with(*t) || (!c.is_alphanumeric() && t.starts_with(rest));
            if texts.iter().any(|t| begins(&t)) {
                let out = out.get_or_insert_with(|| String::with_capacity(s.len() + 8));
                out.push_str(&s[copied..at]);
                out.push(*stand_in);
                copied = at + c.len_utf8();
            }
        }
        out.map(|mut o| {
            o.push_str(&s[copied..]);
            o
        })
    }

    pub fn value(&self, v: &mut Value) {
        match v {
            Value::String(s) => {
                if let Some(hidden) = self.text(s) {
                    *s = hidden;
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => {
                map.values_mut().for_each(|item| self.value(item));
                // Plain words stay: they are what templates look for.
                let word = |k: &str| k.chars().all(|c| c.is_alphanumeric() || c == '_');
                if map.keys().any(|k| !word(k) && self.text(k).is_some()) {
                    *map = std::mem::take(map)
                        .into_iter()
                        .map(|(k, item)| match self.text(&k) {
                            Some(hidden) if !word(&k) => (hidden, item),
                            _ => (k, item),
                        })
                        .collect();
                }
            }
            _ => {}
        }
    }
}
