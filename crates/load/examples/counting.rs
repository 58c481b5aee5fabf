//! The example `recording`, built with the feature `unrecorded`.

#[path = "recording.rs"]
mod recording;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    recording::main()
}
