//! The terminal: ours while we run, and as it was before when we end, however that comes.

use std::io::{self, Stdout};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::ExecutableCommand as _;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::sync::mpsc::Sender;

pub struct Screen {
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub fn open() -> io::Result<Screen> {
        enable_raw_mode()?;
        let opened = io::stdout()
            .execute(EnterAlternateScreen)
            .map(|_| ())
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        if opened.is_err() {
            give_back();
        }
        // A panic's message is for the screen that its reader will see.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        Ok(Screen { terminal: opened? })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Nothing can be done about a terminal that does not take it.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = io::stdout().execute(LeaveAlternateScreen);
    let _ = io::stdout().execute(Show);
}

#[derive(Debug)]
pub enum Input {
    Key(KeyEvent),
    Resized,
    /// The terminal is gone.
    Gone(io::Error),
}

/// Reads keys until nobody wants them. It waits for one at the end, too, and ends with the process.
pub fn read_keys<T: Send + 'static>(to: Sender<T>, wrap: fn(Input) -> T) {
    std::thread::spawn(move || {
        loop {
            let input = match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Input::Key(key),
                Ok(Event::Resize(..)) => Input::Resized,
                Ok(_) => continue,
                Err(error) => {
                    let _ = to.blocking_send(wrap(Input::Gone(error)));
                    return;
                }
            };
            if to.blocking_send(wrap(input)).is_err() {
                return;
            }
        }
    });
}
