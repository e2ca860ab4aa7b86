//! The pre-tokenizers that GGUF files name, as the Hugging Face library's own JSON descriptions.
use serde_json::{json, Value};

/// Canonical names, for error messages.
pub const KNOWN: [&str; 5] = ["smollm", "gpt-2", "llama-bpe", "qwen2", "default"];

pub struct Pretokenizer {
    pub json: Value,
    /// The normalizer's description, or null.
    pub normalizer: Value,
    /// Whether a word that is in the vocabulary is taken as it is.
    pub ignore_merges: bool,
}

fn split(regex: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false})
}

fn bytes(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

fn sequence(parts: Vec<Value>) -> Value {
    json!({"type": "Sequence", "pretokenizers": parts})
}

/// The words of GPT-2's pattern after Llama 3's fashion, with digits in groups of `digits`.
fn modern(digits: &str) -> Value {
    sequence(vec![
        split(&format!(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        )),
        bytes(false),
    ])
}

pub fn by_name(name: &str) -> Option<Pretokenizer> {
    let plain = |json| {
        Some(Pretokenizer {
            json,
            normalizer: Value::Null,
            ignore_merges: false,
        })
    };
    match name {
        "smollm" => plain(sequence(vec![
            json!({"type": "Digits", "individual_digits": true}),
            bytes(true),
        ])),
        "gpt-2" | "gpt2" => plain(bytes(true)),
        "llama-bpe" | "llama3" | "llama-v3" => Some(Pretokenizer {
            json: modern(r"\p{N}{1,3}"),
            normalizer: Value::Null,
            ignore_merges: true,
        }),
        "qwen2" => Some(Pretokenizer {
            json: modern(r"\p{N}"),
            normalizer: json!({"type": "NFC"}),
            ignore_merges: false,
        }),
        // What llama.cpp falls back to: punctuation apart, GPT-2's words, digits in groups of three.
        "default" => plain(sequence(vec![
            split(r"[\p{P}\$\+<=>\^~\|]+"),
            split(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"),
            split(r"\p{N}+"),
            split(r"[0-9][0-9][0-9]"),
            bytes(false),
        ])),
        _ => None,
    }
}
