//! What a report says, before it is a page: both kinds of pages are made of the same.

/// A piece of a page.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    /// Of a level, 1 for the page's own.
    Heading(usize, String),
    Paragraph(Line),
    List(Vec<Item>),
    Table(Table),
    Picture(Picture),
}

/// A point of a list, with points below it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) line: Line,
    pub(super) below: Vec<Line>,
}

/// A table, whose first columns are words and the others figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    /// How many columns are words.
    pub(super) words: usize,
    pub(super) rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    /// Whether it is one that a reader looks for first.
    pub(super) stands_out: bool,
}

/// A picture.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Picture {
    /// Its file's name.
    pub(super) file: String,
    /// What it shows, for those who don't see it.
    pub(super) alt: String,
    pub(super) svg: String,
}

/// Running text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Line(pub(super) Vec<Span>);

/// A piece of running text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Span {
    Text(String),
    Strong(String),
    Code(String),
}

impl Line {
    pub(super) fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Text(text.into()));
        self
    }

    pub(super) fn strong(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Strong(text.into()));
        self
    }

    pub(super) fn code(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Code(text.into()));
        self
    }
}

impl<T: Into<String>> From<T> for Line {
    fn from(text: T) -> Self {
        Self::default().text(text)
    }
}

impl From<Line> for Item {
    fn from(line: Line) -> Self {
        Self { line, below: Vec::new() }
    }
}

impl Block {
    /// A paragraph of plain text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Paragraph(text.into().into())
    }

    /// A heading of the second level.
    pub(super) fn heading(text: impl Into<String>) -> Self {
        Self::Heading(2, text.into())
    }
}
