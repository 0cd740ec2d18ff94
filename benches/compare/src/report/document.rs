//! The report's content.

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Heading(usize, String),
    Paragraph(Line),
    List(Vec<Item>),
    Table(Table),
    Picture(Picture),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) line: Line,
    pub(super) below: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) words: usize,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) stands_out: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Picture {
    pub(super) file: String,
    pub(super) alt: String,
    pub(super) svg: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Line(pub(super) Vec<Span>);

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
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Paragraph(text.into().into())
    }

    pub(super) fn heading(text: impl Into<String>) -> Self {
        Self::Heading(2, text.into())
    }
}
