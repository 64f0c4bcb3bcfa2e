//! Wherever a stream is split, the same frames come out of it, and together they are the stream.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use oncegate::telegram::{Frame, FramingError, Layout};

/// A small limit, so that the fuzzer finds it.
const TELEGRAM_BYTES_MAX: usize = 600;

static LAYOUTS: LazyLock<Vec<Layout>> = LazyLock::new(|| {
    let files = [
        include_str!("../../assets/layouts/std128.toml"),
        include_str!("../../tests/layouts/a_firm_banking.toml"),
        include_str!("../../tests/layouts/b_payment_network.toml"),
        include_str!("../../tests/layouts/d_trailer.toml"),
        include_str!("../../tests/layouts/e_length_inside.toml"),
    ];
    files.into_iter().map(|file| Layout::parse(file).expect("a layout of the tests")).collect()
});

fuzz_target!(|data: &[u8]| {
    let [choice, pace, stream @ ..] = data else { return };
    let layout = &LAYOUTS[usize::from(*choice) % LAYOUTS.len()];
    let whole = cut(layout, [stream].into_iter());
    let pieces = cut(layout, stream.chunks(usize::from(*pace) + 1));
    assert_eq!(whole, pieces, "split into pieces of {}", usize::from(*pace) + 1);
    let (frames, error, pending) = whole;
    let mut taken = Vec::new();
    for frame in &frames {
        let (Frame::Telegram(bytes) | Frame::Poll(bytes)) = frame;
        assert!(!bytes.is_empty() && bytes.len() <= TELEGRAM_BYTES_MAX);
        taken.extend_from_slice(bytes);
    }
    assert!(stream.starts_with(&taken));
    if error.is_none() {
        assert_eq!(taken.len() + pending, stream.len(), "nothing is lost");
        assert!(pending < TELEGRAM_BYTES_MAX, "what is not whole is less than a telegram");
    }
});

/// The frames, the error that ended the stream, and how many bytes were left.
fn cut<'a>(
    layout: &Layout,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<Frame>, Option<FramingError>, usize) {
    let mut framer = layout.framer(TELEGRAM_BYTES_MAX);
    let mut frames = Vec::new();
    for piece in pieces {
        framer.push(piece);
        loop {
            match framer.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error), 0),
            }
        }
    }
    let pending = framer.pending_bytes();
    (frames, None, pending)
}
