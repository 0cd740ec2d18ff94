//! The shop's stock and sales: files without transactions or locks.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone)]
pub(crate) struct Shop {
    left: PathBuf,
    sales: PathBuf,
    still: PathBuf,
}

pub(crate) struct Sale {
    /// Nanoseconds of the boot clock.
    pub(crate) at: u64,
    pub(crate) fence: u64,
}

pub(crate) fn now() -> u64 {
    lockwright::Clock::boot().now().as_nanos()
}

impl Shop {
    pub(crate) fn open(folder: &Path) -> Self {
        Self { left: folder.join("left"), sales: folder.join("sales"), still: folder.join("still") }
    }

    pub(crate) fn stock_up(&self, items: u32) -> io::Result<()> {
        fs::write(&self.left, items.to_string())
    }

    pub(crate) async fn buy(&self, who: &str, fence: u64) -> io::Result<()> {
        let left = self.left()?;
        if left == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        fs::write(&self.left, (left - 1).to_string())?;
        let mut sales = OpenOptions::new().create(true).append(true).open(&self.sales)?;
        sales.write_all(format!("{} {fence} {who}\n", now()).as_bytes())
    }

    pub(crate) fn left(&self) -> io::Result<u32> {
        loop {
            // The file is empty while another process writes it.
            let text = fs::read_to_string(&self.left)?;
            if let Ok(left) = text.parse() {
                return Ok(left);
            }
        }
    }

    pub(crate) fn sales(&self) -> io::Result<Vec<Sale>> {
        let text = fs::read_to_string(&self.sales)?;
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(text
            .lines()
            .map(|line| {
                let mut words = line.split(' ');
                Sale { at: number(words.next()), fence: number(words.next()) }
            })
            .collect())
    }

    pub(crate) async fn stand_still(&self) {
        let _ = fs::write(&self.still, "");
        std::future::pending().await
    }

    pub(crate) fn somebody_stands_still(&self) -> bool {
        self.still.exists()
    }
}
