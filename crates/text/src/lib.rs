//! Tokenizers, chat templates and Parquet's columns of texts for Isotone, behind a small C ABI: opaque handles, explicit lengths, errors as owned
//! strings, and no panic ever crosses. Everything here but a Parquet file that is
//! being read is immutable after construction and safe to share.
mod abi;
mod gguf;
mod hide;
mod parquet_texts;
mod pretokenizers;
mod python;
mod template;
mod tokenizer;

use abi::{borrowed, guarded, Bytes, Ids, Slice};
use gguf::GgufParts;
use parquet_texts::ParquetTexts;
use template::{RenderInput, Template};
use tokenizer::TextTokenizer;

/// What the C++ side keeps beside the handle, so that it need not ask again.
#[repr(C)]
pub struct TokenizerHandle {
    tokenizer: *mut TextTokenizer,
    vocab_size: u32,
    /// Whether decoding is concatenating `token_bytes` and reading the result as UTF-8.
    byte_level: u8,
    /// bos, eos, unk, pad; -1 where there is none.
    named: [i64; 4],
}

fn handle(t: TextTokenizer) -> TokenizerHandle {
    TokenizerHandle {
        vocab_size: t.vocab_size(),
        byte_level: t.byte_level() as u8,
        named: t.named().map(|id| id.map_or(-1, i64::from)),
        tokenizer: Box::into_raw(Box::new(t)),
    }
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_tokenizer_from_json(
    json: Slice,
    config: Slice,
    out: *mut TokenizerHandle,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || {
        Ok(handle(TextTokenizer::from_json(
            json.text("tokenizer.json")?,
            config.text("tokenizer_config.json")?,
        )?))
    })
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_tokenizer_from_gguf(
    parts: *const GgufParts,
    out: *mut TokenizerHandle,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || Ok(handle(gguf::build(&*parts)?)))
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_tokenizer_free(t: *mut TextTokenizer) {
    if !t.is_null() {
        drop(Box::from_raw(t));
    }
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_tokenizer_json(
    t: *const TextTokenizer,
    out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || Ok(Bytes::new((*t).to_json()?.into_bytes())))
}

/// `stand_ins` holds pairs of code points: the first stands for the second in `text` (see `encode_chat` in C++).
#[no_mangle]
pub unsafe extern "C" fn isotone_text_encode(
    t: *const TextTokenizer,
    text: Slice,
    add_special: u8,
    parse_special: u8,
    stand_ins: *const u32,
    stand_in_pairs: usize,
    out: *mut Ids,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || {
        let pairs: Vec<(char, char)> = borrowed(stand_ins, stand_in_pairs * 2)
            .chunks_exact(2)
            .filter_map(|p| Some((char::from_u32(p[0])?, char::from_u32(p[1])?)))
            .collect();
        let text = text.text("the text")?;
        Ok(Ids::new((*t).encode(
            text,
            add_special != 0,
            parse_special != 0,
            &pairs,
        )?))
    })
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_decode(
    t: *const TextTokenizer,
    ids: *const u32,
    count: usize,
    skip_special: u8,
    out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || {
        Ok(Bytes::new(
            (*t).decode(borrowed(ids, count), skip_special != 0)?
                .into_bytes(),
        ))
    })
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_token_bytes(
    t: *const TextTokenizer,
    id: u32,
    out: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || Ok(Bytes::new((*t).token_bytes(id))))
}

/// `out` is -1 where there is no such token.
#[no_mangle]
pub unsafe extern "C" fn isotone_text_token_id(
    t: *const TextTokenizer,
    token: Slice,
    out: *mut i64,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || {
        Ok((*t)
            .token_id(token.text("the token")?)
            .map_or(-1, i64::from))
    })
}

/// Ids of the special tokens, ascending.
#[no_mangle]
pub unsafe extern "C" fn isotone_text_special_ids(
    t: *const TextTokenizer,
    out: *mut Ids,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || Ok(Ids::new((*t).special_ids())))
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_template_new(
    source: Slice,
    out: *mut *mut Template,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || {
        Ok(Box::into_raw(Box::new(Template::new(
            source.text("the chat template")?,
        )?)))
    })
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_template_free(t: *mut Template) {
    if !t.is_null() {
        drop(Box::from_raw(t));
    }
}

/// What a rendering needs; empty slices mean absent.
#[repr(C)]
pub struct RenderParts {
    messages: Slice,
    tools: Slice,
    documents: Slice,
    variables: Slice,
    bos_token: Slice,
    eos_token: Slice,
    add_generation_prompt: u8,
    has_now: u8,
    now: i64,
    /// Where not null, texts of this tokenizer's special tokens inside the input are hidden behind stand-ins.
    tokenizer: *const TextTokenizer,
}

/// The text, and the stand-ins used in it as pairs of code points (stand-in, what it stands for).
#[repr(C)]
pub struct Rendered {
    text: Bytes,
    stand_ins: Ids,
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_render(
    t: *const Template,
    parts: *const RenderParts,
    out: *mut Rendered,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || {
        let p = &*parts;
        let tokenizer = p.tokenizer.as_ref();
        let input = RenderInput {
            messages: p.messages.text("the list of messages")?,
            tools: p.tools.text("the list of tools")?,
            documents: p.documents.text("the list of documents")?,
            variables: p.variables.text("the template's variables")?,
            bos_token: p.bos_token.text("the bos token")?,
            eos_token: p.eos_token.text("the eos token")?,
            add_generation_prompt: p.add_generation_prompt != 0,
            now: (p.has_now != 0).then_some(p.now),
            specials: tokenizer.map_or(&[], |t| t.special_texts()),
        };
        let (text, stand_ins) = (*t).render(&input)?;
        let pairs = stand_ins
            .iter()
            .flat_map(|(a, b)| [*a as u32, *b as u32])
            .collect();
        Ok(Rendered {
            text: Bytes::new(text.into_bytes()),
            stand_ins: Ids::new(pairs),
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_parquet_open(
    path: Slice,
    column: Slice,
    out: *mut *mut ParquetTexts,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || {
        let texts = ParquetTexts::open(path.text("the path")?, column.text("the column")?)?;
        Ok(Box::into_raw(Box::new(texts)))
    })
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_parquet_free(p: *mut ParquetTexts) {
    if !p.is_null() {
        drop(Box::from_raw(p));
    }
}

/// Texts one after another, and their lengths; 2^32 - 1 for a row that is null.
#[repr(C)]
pub struct Rows {
    text: Bytes,
    lengths: Ids,
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_parquet_next(
    p: *mut ParquetTexts,
    most: usize,
    out: *mut Rows,
    error: *mut Bytes,
) -> i32 {
    guarded(out, error, || {
        let (text, lengths) = (*p).next(most)?;
        Ok(Rows {
            text: Bytes::new(text),
            lengths: Ids::new(lengths),
        })
    })
}
