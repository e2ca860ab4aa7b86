//! The shapes that cross the C ABI: borrowed slices in, owned buffers out, and the guard that turns every error and
//! panic into a status and a message. `src/text/rust_abi.h` is the other side of this file.
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

pub type Fallible<T> = Result<T, String>;

/// Borrowed bytes. `ptr` may be null where `len` is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slice {
    pub ptr: *const u8,
    pub len: usize,
}

impl Slice {
    /// # Safety
    /// `ptr` must point to `len` readable bytes that outlive the call.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        borrowed(self.ptr, self.len)
    }

    /// # Safety
    /// As `bytes`.
    pub unsafe fn text<'a>(self, what: &str) -> Fallible<&'a str> {
        std::str::from_utf8(self.bytes()).map_err(|e| {
            format!(
                "{what} is not UTF-8: the byte at offset {} begins no valid sequence",
                e.valid_up_to()
            )
        })
    }
}

/// # Safety
/// `ptr` must point to `len` readable values that outlive the call, or `len` be 0.
pub unsafe fn borrowed<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(ptr, len)
    }
}

/// Owned bytes, given back through `isotone_text_free_bytes`.
#[repr(C)]
pub struct Bytes {
    ptr: *mut u8,
    len: usize,
    capacity: usize,
}

impl Bytes {
    pub fn new(bytes: Vec<u8>) -> Self {
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        Bytes {
            ptr: bytes.as_mut_ptr(),
            len: bytes.len(),
            capacity: bytes.capacity(),
        }
    }
}

/// Owned token ids, given back through `isotone_text_free_ids`.
#[repr(C)]
pub struct Ids {
    ptr: *mut u32,
    len: usize,
    capacity: usize,
}

impl Ids {
    pub fn new(ids: Vec<u32>) -> Self {
        let mut ids = std::mem::ManuallyDrop::new(ids);
        Ids {
            ptr: ids.as_mut_ptr(),
            len: ids.len(),
            capacity: ids.capacity(),
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_free_bytes(b: Bytes) {
    if !b.ptr.is_null() {
        drop(Vec::from_raw_parts(b.ptr, b.len, b.capacity));
    }
}

#[no_mangle]
pub unsafe extern "C" fn isotone_text_free_ids(b: Ids) {
    if !b.ptr.is_null() {
        drop(Vec::from_raw_parts(b.ptr, b.len, b.capacity));
    }
}

/// Runs `body`; its value goes to `out` and 0 is returned, or the reason goes to `error` and 1 is returned.
///
/// # Safety
/// `out` and `error` must be valid for one write.
pub unsafe fn guarded<T>(
    out: *mut T,
    error: *mut Bytes,
    body: impl FnOnce() -> Fallible<T>,
) -> i32 {
    let reason = match caught(body) {
        Ok(value) => {
            out.write(value);
            return 0;
        }
        Err(reason) => reason,
    };
    error.write(Bytes::new(reason.into_bytes()));
    1
}

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body` with its panics turned into errors. They are not printed as well: the caller reports them.
pub fn caught<T>(body: impl FnOnce() -> Fallible<T>) -> Fallible<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CATCHING.with(Cell::get) {
                before(info);
            }
        }));
    });
    let outer = CATCHING.with(|c| c.replace(true));
    let result = catch_unwind(AssertUnwindSafe(body));
    CATCHING.with(|c| c.set(outer));
    result.unwrap_or_else(|panic| Err(format!("the text library gave up: {}", panic_text(&*panic))))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(s) = panic.downcast_ref::<&str>() {
        (*s).to_string()
    } else if let Some(s) = panic.downcast_ref::<String>() {
        s.clone()
    } else {
        "unknown panic".to_string()
    }
}
