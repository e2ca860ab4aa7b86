//! A Hugging Face tokenizer, with what it lacks: special tokens that user text cannot spell, and the bytes of a token.
use crate::abi::Fallible;
use ahash::{AHashMap, AHashSet};
use std::str::FromStr;
use tokenizers::tokenizer::{
    AddedVocabulary, Encoding, Model, OffsetType, PostProcessor, PreTokenizer, Token, Tokenizer,
};
use tokenizers::DecoderWrapper;

/// Longest text taken in one call: the library needs about fifty bytes of memory for each.
const MAX_TEXT: usize = 64 << 20;

pub struct TextTokenizer {
    inner: Tokenizer,
    /// The added tokens without the special ones: what user text is matched against.
    plain: AddedVocabulary,
    specials: AHashSet<u32>,
    special_texts: Vec<String>,
    named: [Option<u32>; 4],
    /// What the post-processor puts around a text.
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    vocab_size: u32,
    byte_level: bool,
    /// GPT-2's printable stand-in of each byte, backwards.
    alphabet: AHashMap<char, u8>,
}

fn as_reason(e: tokenizers::Error) -> String {
    e.to_string()
}

impl TextTokenizer {
    pub fn from_json(json: &str, config: &str) -> Fallible<Self> {
        let inner =
            Tokenizer::from_str(json).map_err(|e| format!("tokenizer.json cannot be read: {e}"))?;
        let mut named = [None; 4];
        if !config.is_empty() {
            let config: serde_json::Value = serde_json::from_str(config)
                .map_err(|e| format!("tokenizer_config.json is not valid JSON: {e}"))?;
            for (slot, key) in
                named
                    .iter_mut()
                    .zip(["bos_token", "eos_token", "unk_token", "pad_token"])
            {
                let value = &config[key];
                if let Some(text) = value.as_str().or_else(|| value["content"].as_str()) {
                    *slot = inner.token_to_id(text);
                }
            }
        }
        TextTokenizer::new(inner, named)
    }

    pub fn new(inner: Tokenizer, named: [Option<u32>; 4]) -> Fallible<Self> {
        let mut plain = inner.get_added_vocabulary().clone();
        plain.set_encode_special_tokens(true);
        let mut specials = AHashSet::new();
        let mut special_texts = Vec::new();
        let mut vocab_size = inner.get_model().get_vocab_size() as u32;
        for (id, token) in inner.get_added_vocabulary().get_added_tokens_decoder() {
            vocab_size = vocab_size.max(id + 1);
            if token.special {
                specials.insert(*id);
                special_texts.push(token.content.clone());
            }
        }
        special_texts.sort();
        if vocab_size > 0 && inner.id_to_token(vocab_size - 1).is_none() {
            // Ids with gaps: the count says nothing, look at all of them.
            vocab_size = inner.get_vocab(true).values().max().map_or(0, |id| id + 1);
        }
        let (mut prefix, mut suffix) = (Vec::new(), Vec::new());
        if let Some(processor) = inner.get_post_processor() {
            let mark = Token::new(u32::MAX, "x".into(), (0, 1));
            let around = processor
                .process(Encoding::from_tokens(vec![mark], 0), None, true)
                .map_err(as_reason)?;
            let ids = around.get_ids();
            if let Some(at) = ids.iter().position(|id| *id == u32::MAX) {
                prefix = ids[..at].to_vec();
                suffix = ids[at + 1..].to_vec();
            }
        }
        let byte_level = matches!(inner.get_decoder(), Some(DecoderWrapper::ByteLevel(_)));
        Ok(TextTokenizer {
            plain,
            specials,
            special_texts,
            named,
            prefix,
            suffix,
            vocab_size,
            byte_level,
            alphabet: alphabet(),
            inner,
        })
    }

    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    pub fn byte_level(&self) -> bool {
        self.byte_level
    }

    pub fn named(&self) -> [Option<u32>; 4] {
        self.named
    }

    pub fn special_texts(&self) -> &[String] {
        &self.special_texts
    }

    pub fn special_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.specials.iter().copied().collect();
        ids.sort_unstable();
        ids
    }

    pub fn to_json(&self) -> Fallible<String> {
        self.inner.to_string(false).map_err(as_reason)
    }

    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Special tokens are found in `text` only if `parse_special`. `stand_ins`: characters that are turned into others
    /// after that search, so that what they hide is ordinary text.
    pub fn encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
        stand_ins: &[(char, char)],
    ) -> Fallible<Vec<u32>> {
        if text.len() > MAX_TEXT {
            return Err(format!(
                "the text has {} bytes; at most {MAX_TEXT} are tokenized in one call. Cut it into documents",
                text.len()
            ));
        }
        let mut ids = Vec::new();
        if add_special {
            ids.extend(&self.prefix);
        }
        let added = if parse_special {
            self.inner.get_added_vocabulary()
        } else {
            &self.plain
        };
        let mut pieces = added.extract_and_normalize(self.inner.get_normalizer(), text);
        for (stand_in, original) in stand_ins {
            let original = original.to_string();
            pieces
                .normalize(|n| n.replace(*stand_in, &original))
                .map_err(as_reason)?;
        }
        if let Some(pre) = self.inner.get_pre_tokenizer() {
            pre.pre_tokenize(&mut pieces).map_err(as_reason)?;
        }
        pieces
            .tokenize(|n| self.tokenize_word(n.get()))
            .map_err(as_reason)?;
        let encoding = pieces
            .into_encoding(None, 0, OffsetType::None)
            .map_err(as_reason)?;
        ids.extend(encoding.get_ids());
        if add_special {
            ids.extend(&self.suffix);
        }
        Ok(ids)
    }

    /// The model's tokens of a word. A model whose vocabulary holds special tokens as words (Unigram, or BPE with
    /// ignore_merges) could make one of plain text: the word is then cut inside it.
    fn tokenize_word(&self, word: &str) -> tokenizers::Result<Vec<Token>> {
        let tokens = self.inner.get_model().tokenize(word)?;
        let forbidden = |t: &&Token| {
            self.specials.contains(&t.id) && self.named[2] != Some(t.id) && t.value.len() > 1
        };
        let Some(bad) = tokens.iter().find(forbidden) else {
            return Ok(tokens);
        };
        let start = bad.offsets.0;
        let first = word
            .get(start..)
            .and_then(|s| s.chars().next())
            .map_or(0, char::len_utf8);
        let cut = start + first;
        if first == 0 || cut >= word.len() {
            return Ok(tokens);
        }
        let mut parts = self.tokenize_word(&word[..cut])?;
        parts.extend(self.tokenize_word(&word[cut..])?);
        Ok(parts)
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Fallible<String> {
        self.inner.decode(ids, skip_special).map_err(as_reason)
    }

    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        let Some(token) = self.inner.id_to_token(id) else {
            return Vec::new();
        };
        if self.byte_level {
            let bytes: Option<Vec<u8>> = token
                .chars()
                .map(|c| self.alphabet.get(&c).copied())
                .collect();
            return bytes.unwrap_or_else(|| token.into_bytes());
        }
        if self.specials.contains(&id) {
            return token.into_bytes();
        }
        if let Some(hex) = token.strip_prefix("<0x").and_then(|t| t.strip_suffix('>')) {
            if let (2, Ok(byte)) = (hex.len(), u8::from_str_radix(hex, 16)) {
                return vec![byte];
            }
        }
        match self.inner.get_decoder() {
            Some(DecoderWrapper::WordPiece(_)) => match token.strip_prefix("##") {
                Some(rest) => rest.as_bytes().to_vec(),
                None => token.into_bytes(),
            },
            _ => token.replace('▁', " ").into_bytes(),
        }
    }
}

/// Printable bytes stand for themselves, the others for the code points from 256 on, in order.
fn alphabet() -> AHashMap<char, u8> {
    let mut map = AHashMap::with_capacity(256);
    let mut next = 256u32;
    for b in 0..=255u8 {
        let printable = matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        let c = if printable { b as u32 } else { next };
        if !printable {
            next += 1;
        }
        map.insert(char::from_u32(c).unwrap_or('\0'), b);
    }
    map
}
