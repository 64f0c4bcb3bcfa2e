//! Styles by meaning. Nothing is told by colour alone: states have letters and symbols, the cursor is reversed.
//!
//! Only the 16 named colours and the terminal's own foreground and background are used, so that the reader's own scheme decides
//! what is readable. `mono` has modifiers only: with `NO_COLOR` crossterm resets the reverse video together with an empty colour.

use ratatui::style::{Color, Modifier, Style};

use crate::state::State;

/// Which colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Theme {
    /// For dark backgrounds.
    #[default]
    Dark,
    /// For light ones.
    Light,
    /// None at all.
    Mono,
}

impl Theme {
    /// Every theme.
    pub const ALL: [Theme; 3] = [Theme::Dark, Theme::Light, Theme::Mono];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Theme::Dark => "dark",
            Theme::Light => "light",
            Theme::Mono => "mono",
        }
    }

    /// The theme of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Theme> {
        Theme::ALL.into_iter().find(|theme| theme.name() == name)
    }

    fn colour(self, dark: Color, light: Color) -> Style {
        match self {
            Theme::Dark => Style::new().fg(dark),
            Theme::Light => Style::new().fg(light),
            Theme::Mono => Style::new(),
        }
    }

    /// Plain text.
    #[must_use]
    pub const fn plain(self) -> Style {
        Style::new()
    }

    /// Less important text.
    #[must_use]
    pub fn dim(self) -> Style {
        match self {
            Theme::Dark => Style::new().fg(Color::Gray),
            Theme::Light => Style::new().fg(Color::DarkGray),
            Theme::Mono => Style::new().add_modifier(Modifier::DIM),
        }
    }

    /// Borders.
    #[must_use]
    pub fn border(self) -> Style {
        self.dim()
    }

    /// Titles and column heads.
    #[must_use]
    pub fn title(self) -> Style {
        self.colour(Color::Cyan, Color::Blue).add_modifier(Modifier::BOLD)
    }

    /// The header line and the bar.
    #[must_use]
    pub fn header(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// A key in the bar and the help.
    #[must_use]
    pub fn key(self) -> Style {
        self.colour(Color::Yellow, Color::Magenta).add_modifier(Modifier::BOLD)
    }

    /// What has the cursor or the focus.
    #[must_use]
    pub fn cursor(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The field under the cursor, in hex and in the list of fields.
    #[must_use]
    pub fn field(self) -> Style {
        self.colour(Color::Yellow, Color::Magenta)
            .add_modifier(Modifier::REVERSED)
            .add_modifier(Modifier::BOLD)
    }

    /// A row that is marked.
    #[must_use]
    pub fn marked(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What is wrong or must be read.
    #[must_use]
    pub fn warning(self) -> Style {
        self.colour(Color::LightRed, Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What went well.
    #[must_use]
    pub fn good(self) -> Style {
        self.colour(Color::LightGreen, Color::Green)
    }

    /// A state's word.
    #[must_use]
    pub fn state(self, state: State) -> Style {
        match state {
            State::Received => self.colour(Color::LightCyan, Color::Cyan),
            State::Sent => self.colour(Color::LightBlue, Color::Blue),
            State::Done => self.good(),
            State::Unknown => {
                self.colour(Color::LightYellow, Color::Magenta).add_modifier(Modifier::BOLD)
            }
            State::Failed => self.warning(),
        }
    }
}

/// The letter and the symbol of a state: told without colour.
#[must_use]
pub const fn symbol(state: State) -> &'static str {
    match state {
        State::Received => "R ·",
        State::Sent => "S >",
        State::Done => "D +",
        State::Unknown => "U ?",
        State::Failed => "F !",
    }
}
