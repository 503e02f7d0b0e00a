//! Makes a pool, writes and reads it, and opens it again; checks what it did.
//!
//!     perdure-example POOL

use std::{env, error::Error, path::Path, thread};

use perdure::{Code, Store};

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args_os().nth(1).ok_or("usage: perdure-example POOL")?;
    let path = Path::new(&path);
    write(path)?;
    read_again(path)?;
    errors_are_values(path)?;
    println!("perdure {} from Rust: as expected", perdure::version());
    Ok(())
}

/// Values of two numbers: all bytes of an array count.
type Point = [f64; 2];

fn write(path: &Path) -> perdure::Result<()> {
    let store = Store::create::<u64, Point>(path)?;
    let keys: Vec<u64> = (0..1000).collect();
    let points: Vec<Point> = keys.iter().map(|&k| [k as f64, -(k as f64)]).collect();
    assert!(store.put(&keys, &points)?.into_iter().all(|written| written));

    let found: Vec<Option<Point>> = store.get(&[7u64, 5000])?;
    assert_eq!(found, [Some([7.0, -7.0]), None]);
    assert_eq!(store.erase(&[7u64, 5000])?, [true, false]);

    store.put_atomically(&[1u64, 2], &[[0.5, 0.5]; 2])?;

    let transaction = store.begin()?;
    transaction.put(&[7u64], &[[70.0, 70.0]])?;
    transaction.put(&[8u64], &[[80.0, 80.0]])?;
    transaction.commit()?;
    let aborted = store.begin()?;
    aborted.put(&[9u64], &[[0.0, 0.0]])?;
    assert_eq!(aborted.get::<u64, Point>(&[9])?, [Some([0.0, 0.0])]);
    drop(aborted);
    assert_eq!(store.get::<u64, Point>(&[9])?, [Some([9.0, -9.0])]);

    thread::scope(|scope| {
        for part in keys.chunks(250) {
            let store = &store;
            scope.spawn(move || assert_eq!(store.get::<u64, Point>(part).unwrap().len(), 250));
        }
    });
    store.close()
}

fn read_again(path: &Path) -> perdure::Result<()> {
    let store = Store::open(path)?;
    assert_eq!(store.len()?, 1000);
    let found = store.get::<u64, Point>(&[1, 7, 8, 999])?;
    assert_eq!(
        found,
        [Some([0.5, 0.5]), Some([70.0, 70.0]), Some([80.0, 80.0]), Some([999.0, -999.0])]
    );
    store.close()
}

fn errors_are_values(path: &Path) -> perdure::Result<()> {
    let store = Store::open(path)?;
    let busy = Store::open(path).err().expect("it is open");
    assert_eq!(busy.code, Code::Busy, "{busy}");
    let narrow = store.put(&[1u32], &[[0.0, 0.0]]).expect_err("keys have eight bytes");
    assert_eq!(narrow.code, Code::InvalidArgument, "{narrow}");
    assert!(narrow.message.contains("4 bytes"), "{narrow}");
    store.close()?;
    let missing = Store::open(&path.with_extension("missing")).err().expect("nothing is there");
    assert_eq!(missing.code, Code::NotFound, "{missing}");
    Ok(())
}
