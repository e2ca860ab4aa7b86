//! Chat templates: Jinja in the dialect of the transformers library's apply_chat_template. Templates are hostile input:
//! steps, depth and output are limited, and they run on a stack of their own that is deep enough for those limits.
use crate::abi::{caught, Fallible};
use crate::hide::Hider;
use crate::python::{self, Dumps, MAX_OUTPUT};
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind};
use serde_json::Value as Json;
use std::io::Write;

/// Steps of the engine: for any template, for each byte of its input, and at most. A step may cost as much as the value
/// it copies, so the allowance is small; ordinary templates take some fifty steps a message.
const BASE_FUEL: u64 = 100_000;
const FUEL_PER_BYTE: u64 = 16;
const MAX_FUEL: u64 = 8_000_000;
const MAX_SOURCE: usize = 4 << 20;
const STACK: usize = 512 << 20;
const RECURSION: usize = 200;
/// Marks the words of raise_exception inside an error's detail.
const RAISED: &str = "\u{1}raised:";

pub struct Template {
    environment: Environment<'static>,
    source: String,
}

pub struct RenderInput<'a> {
    pub messages: &'a str,
    pub tools: &'a str,
    pub documents: &'a str,
    pub variables: &'a str,
    pub bos_token: &'a str,
    pub eos_token: &'a str,
    pub add_generation_prompt: bool,
    pub now: Option<i64>,
    pub specials: &'a [String],
}

/// A writer that stops at the limit.
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(std::io::Error::other(
                "the template writes more than 64 MiB",
            ));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn reason(e: &Error) -> String {
    if let Some(words) = e.detail().and_then(|d| d.strip_prefix(RAISED)) {
        return format!("the chat template refuses the conversation: {words}");
    }
    let line = e.line().map_or(String::new(), |n| format!(" in line {n}"));
    match e.kind() {
        ErrorKind::OutOfFuel => format!(
            "the chat template was stopped after too many steps{line}; does it loop for ever?"
        ),
        kind => {
            let source = std::error::Error::source(e).map_or(String::new(), |s| format!(": {s}"));
            format!(
                "the chat template failed{line}: {kind}: {}{source}",
                e.detail().unwrap_or("no more is known")
            )
        }
    }
}

/// Runs `body` on a thread with a deep stack: hostile nesting then meets its limits before the stack's end.
fn on_deep_stack<T: Send>(body: impl FnOnce() -> Fallible<T> + Send) -> Fallible<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, || caught(body))
            .map_err(|e| format!("no thread to render the chat template on: {e}"))?;
        thread
            .join()
            .unwrap_or_else(|_| Err("the chat template broke the renderer".into()))
    })
}

fn tojson(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent = match kwargs.get::<Option<Value>>("indent")? {
        Some(v) if v.is_integer() => {
            Some(" ".repeat(v.as_i64().unwrap_or(0).clamp(0, 64) as usize))
        }
        Some(v) => v.as_str().map(str::to_owned),
        None => None,
    };
    let mut dumps = Dumps {
        ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        item_separator: if indent.is_some() { "," } else { ", " }.into(),
        key_separator: ": ".into(),
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
    };
    if let Some(pair) = kwargs
        .get::<Option<Value>>("separators")?
        .filter(|v| !v.is_none())
    {
        dumps.item_separator = python::str_of(&pair.get_item_by_index(0)?)?;
        dumps.key_separator = python::str_of(&pair.get_item_by_index(1)?)?;
    }
    kwargs.assert_all_used()?;
    dumps.write(value).map(Value::from)
}

fn join(value: &Value, separator: Option<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let separator = separator
        .as_ref()
        .map_or(Ok(String::new()), python::str_of)?;
    let attribute = kwargs.get::<Option<String>>("attribute")?;
    let mut out = String::new();
    for (i, item) in value.try_iter()?.enumerate() {
        if i > 0 {
            out.push_str(&separator);
        }
        let item = match &attribute {
            Some(name) => item.get_attr(name)?,
            None => item,
        };
        out.push_str(&python::str_of(&item)?);
        if out.len() > MAX_OUTPUT {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                "join makes more than 64 MiB",
            ));
        }
    }
    Ok(out)
}

/// C's strftime over local time, which is what Python's is.
fn strftime(format: &str, now: Option<i64>) -> Result<String, Error> {
    let refuse = || {
        Error::new(
            ErrorKind::InvalidOperation,
            "strftime_now: the format cannot be used",
        )
    };
    if format.is_empty() {
        return Ok(String::new());
    }
    let format = std::ffi::CString::new(format).map_err(|_| refuse())?;
    let mut out = vec![0u8; 4096];
    // SAFETY: `tm` is filled by localtime_r before it is read; strftime writes at most `out.len()` bytes.
    let written = unsafe {
        let seconds: libc::time_t = now.unwrap_or_else(|| libc::time(std::ptr::null_mut()));
        let mut tm: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&seconds, &mut tm).is_null() {
            return Err(refuse());
        }
        libc::strftime(out.as_mut_ptr().cast(), out.len(), format.as_ptr(), &tm)
    };
    if written == 0 {
        return Err(refuse());
    }
    out.truncate(written);
    String::from_utf8(out).map_err(|_| refuse())
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_recursion_limit(RECURSION);
    env.set_unknown_method_callback(python::method);
    env.set_formatter(|out, _, value| match value.as_str() {
        Some(s) => out.write_str(s).map_err(Error::from),
        None => out.write_str(&python::str_of(value)?).map_err(Error::from),
    });
    env.add_function("raise_exception", |words: Value| -> Result<Value, Error> {
        Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("{RAISED}{}", python::str_of(&words)?),
        ))
    });
    env.add_filter("tojson", |value: &Value, kwargs: Kwargs| {
        tojson(value, kwargs)
    });
    env.add_filter("string", |value: &Value| python::str_of(value));
    env.add_filter("join", |value: &Value, rest: Rest<Value>| {
        let mut rest: Vec<Value> = rest.0;
        let kwargs = match rest.last() {
            Some(v) if v.is_kwargs() => rest.pop().map_or(
                Err(Error::from(ErrorKind::InvalidOperation)),
                Kwargs::try_from,
            )?,
            _ => Kwargs::from_iter(std::iter::empty::<(String, Value)>()),
        };
        join(value, rest.into_iter().next(), kwargs)
    });
    env.add_test("sequence", |v: &Value| {
        matches!(
            v.kind(),
            ValueKind::Seq | ValueKind::Map | ValueKind::String
        )
    });
    env
}

/// Line ends as Jinja reads them, and the transformers library's tag {% generation %}, which changes no text, as a block
/// that is always taken.
fn dialect(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(at) = rest.find("{%") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest.find("%}") else { break };
        let inside = &rest[2..end];
        let word = inside.trim_matches(|c: char| c == '-' || c == '+' || c.is_whitespace());
        let replacement = match word {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        match replacement {
            Some(new) => {
                out.push_str("{%");
                out.push_str(&inside.replacen(word, &format!(" {new} "), 1));
                out.push_str("%}");
                rest = &rest[end + 2..];
            }
            None => {
                out.push_str("{%");
                rest = &rest[2..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn parse(text: &str, what: &str) -> Fallible<Json> {
    if text.is_empty() {
        return Ok(Json::Null);
    }
    serde_json::from_str(text).map_err(|e| format!("{what} is not valid JSON: {e}"))
}

/// Reasoning is copied under the names that templates read, as transformers does.
fn alias_reasoning(message: &mut serde_json::Map<String, Json>) {
    let names = ["reasoning_content", "thinking", "reasoning"];
    let Some(found) = names
        .iter()
        .filter_map(|n| message.get(*n))
        .find(|v| !v.is_null())
        .cloned()
    else {
        return;
    };
    let old = std::mem::take(message);
    message.insert("thinking".into(), found.clone());
    message.extend(old);
    message.insert("reasoning_content".into(), found);
}

impl Template {
    pub fn new(source: &str) -> Fallible<Self> {
        if source.len() > MAX_SOURCE {
            return Err(format!(
                "the chat template has {} bytes; at most {MAX_SOURCE} are taken",
                source.len()
            ));
        }
        let text = dialect(source);
        let environment = on_deep_stack(move || {
            let mut env = environment();
            env.add_template_owned("chat", text).map_err(|e| {
                let line = e.line().map_or(String::new(), |n| format!(" (line {n})"));
                format!(
                    "the chat template cannot be read{line}: {}",
                    e.detail().unwrap_or("bad syntax")
                )
            })?;
            Ok(env)
        })?;
        Ok(Template {
            environment,
            source: source.to_owned(),
        })
    }

    /// The text, and the stand-ins that hide special tokens of `input.specials` in it.
    pub fn render(&self, input: &RenderInput) -> Fallible<(String, Vec<(char, char)>)> {
        on_deep_stack(|| self.render_here(input))
    }

    fn render_here(&self, input: &RenderInput) -> Fallible<(String, Vec<(char, char)>)> {
        let mut messages = parse(input.messages, "the list of messages")?;
        let mut tools = parse(input.tools, "the list of tools")?;
        let mut documents = parse(input.documents, "the list of documents")?;
        let mut variables = parse(input.variables, "the template's variables")?;
        let Json::Array(list) = &mut messages else {
            return Err("the messages must be a JSON list of objects".into());
        };
        if list.is_empty() {
            return Err("the conversation is empty; give at least one message".into());
        }
        for (i, message) in list.iter_mut().enumerate() {
            match message {
                Json::Object(map) => alias_reasoning(map),
                _ => {
                    return Err(format!(
                        "message {i} must be a JSON object with role and content"
                    ))
                }
            }
        }
        if !tools.is_null() && !tools.is_array() {
            return Err("the tools must be a JSON list".into());
        }
        if !variables.is_null() && !variables.is_object() {
            return Err("the template's variables must be a JSON object".into());
        }
        let mut stand_ins = Vec::new();
        if !input.specials.is_empty() {
            let inputs = [&messages, &tools, &documents, &variables];
            let hider = Hider::new(input.specials, &self.source, &inputs)?;
            for v in [&mut messages, &mut tools, &mut documents, &mut variables] {
                hider.value(v);
            }
            stand_ins = hider.stand_ins();
        }

        let mut context: Vec<(String, Value)> = Vec::new();
        if !input.bos_token.is_empty() {
            context.push(("bos_token".into(), Value::from(input.bos_token)));
        }
        if !input.eos_token.is_empty() {
            context.push(("eos_token".into(), Value::from(input.eos_token)));
        }
        if let Json::Object(map) = variables {
            context.extend(map.into_iter().map(|(k, v)| (k, Value::from_serialize(v))));
        }
        context.push(("messages".into(), Value::from_serialize(&messages)));
        context.push(("tools".into(), Value::from_serialize(&tools)));
        context.push(("documents".into(), Value::from_serialize(&documents)));
        context.push((
            "add_generation_prompt".into(),
            Value::from(input.add_generation_prompt),
        ));

        let bytes = input.messages.len()
            + input.tools.len()
            + input.documents.len()
            + input.variables.len();
        let mut env = self.environment.clone();
        env.set_fuel(Some(MAX_FUEL.min(BASE_FUEL + FUEL_PER_BYTE * bytes as u64)));
        let now = input.now;
        env.add_function("strftime_now", move |format: String| strftime(&format, now));
        let template = env.get_template("chat").map_err(|e| reason(&e))?;
        let mut out = Limited(Vec::new());
        template
            .render_captured_to(Value::from_iter(context), &mut out)
            .map_err(|e| reason(&e))?;
        let mut text = String::from_utf8(out.0).map_err(|e| e.to_string())?;
        // Ordinary conversations have none: their text takes the plain path.
        stand_ins.retain(|(stand_in, _)| text.contains(*stand_in));
        text.shrink_to_fit();
        Ok((text, stand_ins))
    }
}
