//! A store of fixed-size keys and values, in safe Rust. A start to copy, not the whole of
//! perdure.h: batches of host memory, atomic batches and transactions.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::mem::{size_of, size_of_val, zeroed};
use std::ptr::{self, NonNull};
use std::{fmt, os::unix::ffi::OsStrExt, path::Path};

use bytemuck::{AnyBitPattern, NoUninit};

#[allow(non_camel_case_types, non_upper_case_globals, dead_code)]
mod ffi {
    include!(concat!(env!("OUT_DIR"), "/perdure.rs"));
}

/// What failed, as perdure_code names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    InvalidArgument,
    NotFound,
    AlreadyExists,
    Busy,
    NoSpace,
    Corrupt,
    Unsupported,
    Closed,
    /// Any other, with its number.
    Other(u32),
}

impl From<ffi::perdure_code> for Code {
    fn from(code: ffi::perdure_code) -> Self {
        match code {
            ffi::PERDURE_INVALID_ARGUMENT => Code::InvalidArgument,
            ffi::PERDURE_NOT_FOUND => Code::NotFound,
            ffi::PERDURE_ALREADY_EXISTS => Code::AlreadyExists,
            ffi::PERDURE_BUSY => Code::Busy,
            ffi::PERDURE_NO_SPACE => Code::NoSpace,
            ffi::PERDURE_CORRUPT => Code::Corrupt,
            ffi::PERDURE_UNSUPPORTED => Code::Unsupported,
            ffi::PERDURE_CLOSED => Code::Closed,
            other => Code::Other(other),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Error {
    pub code: Code,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} ({:?})", self.message, self.code)
    }
}
impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

/// Runs a call whose last argument is the error.
fn call(f: impl FnOnce(*mut *mut ffi::perdure_error) -> ffi::perdure_code) -> Result<()> {
    let mut error = ptr::null_mut();
    let code = f(&mut error);
    if code == ffi::PERDURE_OK {
        return Ok(());
    }
    // SAFETY: the call set `error` to an error of ours or to NULL, and both functions take either.
    let message = unsafe {
        let text = CStr::from_ptr(ffi::perdure_error_message(error));
        let message = text.to_string_lossy().into_owned();
        ffi::perdure_error_free(error);
        message
    };
    Err(Error { code: code.into(), message })
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error {
        code: Code::InvalidArgument,
        message: format!("{} has a zero byte", path.display()),
    })
}

fn column<T: NoUninit>(of: &[T]) -> ffi::perdure_column {
    ffi::perdure_column {
        data: of.as_ptr().cast(),
        offsets: ptr::null(),
        count: of.len(),
        width: size_of::<T>() as u32,
        space: ffi::PERDURE_MEMORY_HOST,
    }
}

/// What becomes of one key of a batch of writes: `true` where it was written or erased.
fn applied(statuses: Vec<u8>) -> Vec<bool> {
    statuses.into_iter().map(|s| u32::from(s) == ffi::PERDURE_KEY_OK).collect()
}

/// A durable table. Any number of threads may use it.
pub struct Store {
    raw: NonNull<ffi::perdure_store>,
}

// SAFETY: perdure.h lets any number of threads use a store.
unsafe impl Send for Store {}
unsafe impl Sync for Store {}

impl Store {
    /// A new pool of keys and values of these types. One that is there is replaced.
    pub fn create<K: NoUninit, V: NoUninit>(path: &Path) -> Result<Store> {
        let path = c_path(path)?;
        // SAFETY: all zeros are a valid structure, and its size is what it says.
        let mut options: ffi::perdure_create_options = unsafe { zeroed() };
        unsafe { ffi::perdure_create_options_init(&mut options, size_of_val(&options)) };
        options.key_bytes = size_of::<K>() as u32;
        options.value_bytes = size_of::<V>() as u32;
        options.overwrite = 1;
        // SAFETY: path, options and `store` live through the call.
        Self::made(|store, error| unsafe {
            ffi::perdure_create(path.as_ptr(), &options, ptr::null(), store, error)
        })
    }

    pub fn open(path: &Path) -> Result<Store> {
        let path = c_path(path)?;
        // SAFETY: path and `store` live through the call.
        Self::made(|store, error| unsafe {
            ffi::perdure_open(path.as_ptr(), ptr::null(), store, error)
        })
    }

    fn made(
        make: impl FnOnce(
            *mut *mut ffi::perdure_store,
            *mut *mut ffi::perdure_error,
        ) -> ffi::perdure_code,
    ) -> Result<Store> {
        let mut store = ptr::null_mut();
        call(|error| make(&mut store, error))?;
        Ok(Store { raw: NonNull::new(store).expect("a call that succeeds makes a store") })
    }

    /// Durable when it returns. Which keys were written.
    pub fn put<K: NoUninit, V: NoUninit>(&self, keys: &[K], values: &[V]) -> Result<Vec<bool>> {
        self.put_with(keys, values, &call_options(ptr::null_mut(), false))
    }

    /// All of the batch or none of it, whatever happens.
    pub fn put_atomically<K: NoUninit, V: NoUninit>(&self, keys: &[K], values: &[V]) -> Result<()> {
        self.put_with(keys, values, &call_options(ptr::null_mut(), true)).map(drop)
    }

    fn put_with<K: NoUninit, V: NoUninit>(
        &self,
        keys: &[K],
        values: &[V],
        options: &ffi::perdure_call_options,
    ) -> Result<Vec<bool>> {
        let (k, v) = (column(keys), column(values));
        let mut statuses = vec![0; keys.len()];
        // SAFETY: the columns are of slices that live through the call; a status for each key.
        call(|error| unsafe {
            ffi::perdure_put(self.raw.as_ptr(), &k, &v, statuses.as_mut_ptr(), options, error)
        })?;
        Ok(applied(statuses))
    }

    /// The value of each key that is there.
    pub fn get<K: NoUninit, V: AnyBitPattern>(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.get_with(keys, &call_options(ptr::null_mut(), false))
    }

    fn get_with<K: NoUninit, V: AnyBitPattern>(
        &self,
        keys: &[K],
        options: &ffi::perdure_call_options,
    ) -> Result<Vec<Option<V>>> {
        let k = column(keys);
        let mut values = vec![V::zeroed(); keys.len()];
        let mut statuses = vec![0u8; keys.len()];
        let into = ffi::perdure_mutable_column {
            data: values.as_mut_ptr().cast(),
            count: values.len(),
            width: size_of::<V>() as u32,
            space: ffi::PERDURE_MEMORY_HOST,
        };
        // SAFETY: the columns are of slices that live through the call; any bytes are a V.
        call(|error| unsafe {
            ffi::perdure_get(self.raw.as_ptr(), &k, &into, statuses.as_mut_ptr(), options, error)
        })?;
        let corrupt = statuses.iter().position(|&s| u32::from(s) == ffi::PERDURE_KEY_CORRUPT);
        if let Some(key) = corrupt {
            let message = format!("the record of key {key} of the batch fails its checksum");
            return Err(Error { code: Code::Corrupt, message });
        }
        Ok(values.into_iter().zip(applied(statuses)).map(|(v, there)| there.then_some(v)).collect())
    }

    /// Which keys were there.
    pub fn erase<K: NoUninit>(&self, keys: &[K]) -> Result<Vec<bool>> {
        let k = column(keys);
        let mut statuses = vec![0; keys.len()];
        // SAFETY: the column is of a slice that lives through the call; a status for each key.
        call(|error| unsafe {
            ffi::perdure_erase(self.raw.as_ptr(), &k, statuses.as_mut_ptr(), ptr::null(), error)
        })?;
        Ok(applied(statuses))
    }

    /// Others wait until it ends.
    pub fn begin(&self) -> Result<Transaction<'_>> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` lives through the call.
        call(|error| unsafe {
            ffi::perdure_begin(self.raw.as_ptr(), ptr::null(), &mut raw, error)
        })?;
        let raw = NonNull::new(raw).expect("a call that succeeds begins a transaction");
        Ok(Transaction { store: self, raw, of_this_thread: PhantomData })
    }

    pub fn len(&self) -> Result<u64> {
        // SAFETY: all zeros are a valid structure, and its size is what it says.
        let mut stats: ffi::perdure_stats = unsafe { zeroed() };
        stats.struct_bytes = size_of_val(&stats);
        call(|error| unsafe { ffi::perdure_get_stats(self.raw.as_ptr(), &mut stats, error) })?;
        Ok(stats.records)
    }

    pub fn is_empty(&self) -> Result<bool> {
        self.len().map(|records| records == 0)
    }

    /// Tells what the end of a `Store` that is only dropped cannot.
    pub fn close(self) -> Result<()> {
        // SAFETY: `self` is dropped after the call.
        call(|error| unsafe { ffi::perdure_close(self.raw.as_ptr(), error) })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: nobody has the store any more; transactions borrow it.
        unsafe { ffi::perdure_destroy(self.raw.as_ptr()) }
    }
}

fn call_options(
    transaction: *mut ffi::perdure_transaction,
    atomic: bool,
) -> ffi::perdure_call_options {
    // SAFETY: all zeros are a valid structure, and its size is what it says.
    let mut options: ffi::perdure_call_options = unsafe { zeroed() };
    unsafe { ffi::perdure_call_options_init(&mut options, size_of_val(&options)) };
    options.transaction = transaction;
    options.atomic = atomic.into();
    options
}

/// Batches that take effect together or not at all. One that is dropped before its end aborts. It
/// stays on its thread, for calls of that thread belong to it (perdure_begin() in perdure.h).
pub struct Transaction<'a> {
    store: &'a Store,
    raw: NonNull<ffi::perdure_transaction>,
    of_this_thread: PhantomData<*mut ()>,
}

impl Transaction<'_> {
    pub fn put<K: NoUninit, V: NoUninit>(&self, keys: &[K], values: &[V]) -> Result<Vec<bool>> {
        self.store.put_with(keys, values, &call_options(self.raw.as_ptr(), false))
    }

    pub fn get<K: NoUninit, V: AnyBitPattern>(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.store.get_with(keys, &call_options(self.raw.as_ptr(), false))
    }

    pub fn commit(self) -> Result<()> {
        // SAFETY: `self` is dropped after the call.
        call(|error| unsafe { ffi::perdure_commit(self.raw.as_ptr(), error) })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody has the transaction any more.
        unsafe { ffi::perdure_transaction_destroy(self.raw.as_ptr()) }
    }
}

/// The library's version.
pub fn version() -> String {
    // SAFETY: the text lives as long as the program.
    unsafe { CStr::from_ptr(ffi::perdure_version()) }.to_string_lossy().into_owned()
}
