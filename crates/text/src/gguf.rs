//! A byte-level BPE tokenizer from the tokens, merges and names of a GGUF file, built without a detour over JSON.
use crate::abi::{borrowed, Fallible, Slice};
use crate::pretokenizers;
use crate::tokenizer::TextTokenizer;
use ahash::AHashMap;
use serde_json::json;
use tokenizers::models::bpe::BPE;
use tokenizers::{
    AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper,
    Tokenizer,
};

#[repr(C)]
pub struct GgufParts {
    model: Slice,
    pre: Slice,
    tokens: *const Slice,
    token_count: usize,
    types: *const i32,
    type_count: usize,
    merges: *const Slice,
    merge_count: usize,
    /// bos, eos, unk, pad; -1 where there is none.
    named: [i64; 4],
    add_bos: u8,
    add_eos: u8,
}

const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// # Safety
/// All pointers of `parts` must be valid for their counts during the call.
pub unsafe fn build(parts: &GgufParts) -> Fallible<TextTokenizer> {
    let model = parts.model.text("the tokenizer's model name")?;
    if model != "gpt2" {
        return Err(format!(
            "the tokenizer model '{model}' cannot be built from a GGUF file; 'gpt2' (byte-level BPE) can. \
             Use the model's tokenizer.json instead"
        ));
    }
    let pre = parts.pre.text("the pre-tokenizer's name")?;
    let Some(pre) = pretokenizers::by_name(pre) else {
        return Err(format!(
            "the pre-tokenizer '{pre}' is not known; known are {}. Use the model's tokenizer.json instead",
            pretokenizers::KNOWN.join(", ")
        ));
    };
    let tokens = borrowed(parts.tokens, parts.token_count);
    let types = borrowed(parts.types, parts.type_count);
    if tokens.is_empty() {
        return Err("the vocabulary has no tokens".into());
    }
    if !types.is_empty() && types.len() != tokens.len() {
        return Err(format!(
            "the vocabulary has {} tokens but {} token types",
            tokens.len(),
            types.len()
        ));
    }
    let merges = borrowed(parts.merges, parts.merge_count);

    let mut vocab: AHashMap<String, u32> = AHashMap::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate() {
        let text = token.text("a token of the vocabulary")?;
        if let Some(other) = vocab.insert(text.to_owned(), id as u32) {
            return Err(format!(
                "tokens {other} and {id} of the vocabulary are both '{text}'"
            ));
        }
    }
    let mut pairs = Vec::with_capacity(merges.len());
    for (rank, merge) in merges.iter().enumerate() {
        let text = merge.text("a merge")?;
        // A left side may itself begin with a space only in broken files; the first character is skipped all the same.
        let cut = text
            .char_indices()
            .skip(1)
            .find(|(_, c)| *c == ' ')
            .map(|(i, _)| i);
        match cut {
            Some(i) if i + 1 < text.len() => {
                pairs.push((text[..i].to_owned(), text[i + 1..].to_owned()))
            }
            _ => {
                return Err(format!(
                    "merge {rank} is '{text}'; it must be two tokens with a space between"
                ))
            }
        }
    }
    let bpe = BPE::builder()
        .vocab_and_merges(vocab, pairs)
        .ignore_merges(pre.ignore_merges)
        .build()
        .map_err(|e| format!("the merges do not fit the vocabulary: {e}"))?;

    let mut named = [None; 4];
    for (slot, id) in named.iter_mut().zip(parts.named) {
        if id >= 0 {
            if id as u64 >= tokens.len() as u64 {
                return Err(format!(
                    "a special id is {id}, but the vocabulary has {} tokens",
                    tokens.len()
                ));
            }
            *slot = Some(id as u32);
        }
    }

    let mut t = Tokenizer::new(bpe);
    let wrong = |e: serde_json::Error| format!("internal: {e}");
    t.with_pre_tokenizer(Some(
        serde_json::from_value::<PreTokenizerWrapper>(pre.json).map_err(wrong)?,
    ));
    if !pre.normalizer.is_null() {
        t.with_normalizer(Some(
            serde_json::from_value::<NormalizerWrapper>(pre.normalizer).map_err(wrong)?,
        ));
    }
    let decoder = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    t.with_decoder(Some(
        serde_json::from_value::<DecoderWrapper>(decoder).map_err(wrong)?,
    ));

    let mut added = Vec::new();
    for (id, token) in tokens.iter().enumerate() {
        let kind = types
            .get(id)
            .copied()
            .unwrap_or(if named.contains(&Some(id as u32)) {
                CONTROL
            } else {
                1
            });
        if matches!(kind, UNKNOWN | CONTROL | USER_DEFINED) {
            let text = token.text("a token of the vocabulary")?;
            added.push(AddedToken::from(text, kind != USER_DEFINED).normalized(false));
        }
    }
    t.add_tokens(&added);

    let text_of = |id: Option<u32>| id.and_then(|i| tokens[i as usize].text("a token").ok());
    let bos = if parts.add_bos != 0 {
        text_of(named[0])
    } else {
        None
    };
    let eos = if parts.add_eos != 0 {
        text_of(named[1])
    } else {
        None
    };
    if bos.is_some() || eos.is_some() {
        let special = |s: &str, kind: u32| json!({"SpecialToken": {"id": s, "type_id": kind}});
        let mut single = Vec::new();
        let mut pair = Vec::new();
        for (part, kind) in [("A", 0u32), ("B", 1u32)] {
            let mut one = Vec::new();
            one.extend(bos.map(|s| special(s, kind)));
            one.push(json!({"Sequence": {"id": part, "type_id": kind}}));
            one.extend(eos.map(|s| special(s, kind)));
            if kind == 0 {
                single = one.clone();
            }
            pair.extend(one);
        }
        let mut table = serde_json::Map::new();
        for (text, id) in [(bos, named[0]), (eos, named[1])] {
            if let (Some(text), Some(id)) = (text, id) {
                table.insert(
                    text.to_owned(),
                    json!({"id": text, "ids": [id], "tokens": [text]}),
                );
            }
        }
        let processor = json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": table});
        t.with_post_processor(Some(
            serde_json::from_value::<PostProcessorWrapper>(processor).map_err(wrong)?,
        ));
    }
    TextTokenizer::new(t, named)
}
