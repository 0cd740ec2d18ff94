//! The handshake of a benchmark's program: see `benches/compare/README.md`.

use std::iter::Peekable;
use std::str::Chars;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) runtime: String,
    pub(crate) backends: Vec<String>,
}

pub(crate) fn read(line: &str) -> Result<Handshake, String> {
    let mut handshake = Handshake::default();
    let mut text = Text(line.trim().chars().peekable());
    text.expect('{')?;
    loop {
        let key = text.string()?;
        text.expect(':')?;
        let mut values = text.strings()?;
        match key.as_str() {
            "name" => handshake.name = values.pop().unwrap_or_default(),
            "library" => handshake.library = values.pop().unwrap_or_default(),
            "runtime" => handshake.runtime = values.pop().unwrap_or_default(),
            "backends" => handshake.backends = values,
            _ => {}
        }
        match text.next() {
            Some(',') => {}
            Some('}') => break,
            other => return Err(format!("{other:?} where `,` or `}}` was expected")),
        }
    }
    if handshake.name.is_empty() || handshake.backends.is_empty() {
        return Err("there is no name in it, or no backend".to_owned());
    }
    Ok(handshake)
}

struct Text<'a>(Peekable<Chars<'a>>);

impl Text<'_> {
    fn next(&mut self) -> Option<char> {
        while self.0.next_if(|c| c.is_whitespace()).is_some() {}
        self.0.next()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.next() {
            Some(found) if found == wanted => Ok(()),
            found => Err(format!("{found:?} where `{wanted}` was expected")),
        }
    }

    fn strings(&mut self) -> Result<Vec<String>, String> {
        while self.0.next_if(|c| c.is_whitespace()).is_some() {}
        if self.0.next_if_eq(&'[').is_none() {
            return Ok(vec![self.string()?]);
        }
        let mut strings = Vec::new();
        loop {
            while self.0.next_if(|c| c.is_whitespace() || *c == ',').is_some() {}
            if self.0.next_if_eq(&']').is_some() {
                return Ok(strings);
            }
            strings.push(self.string()?);
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect('"')?;
        let mut string = String::new();
        loop {
            match self.0.next().ok_or("it ends in the midst of a text")? {
                '"' => return Ok(string),
                '\\' => string.push(self.escaped()?),
                c => string.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        match self.0.next() {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('u') => {
                let digits: String = self.0.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).map_err(|_| digits.clone())?;
                // Each half of a surrogate pair is replaced.
                Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            Some(c) => Ok(c),
            None => Err("it ends in the midst of a text".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_is_read() {
        let line = r#"{"name": "a\u0062", "library":"x \"1\"", "runtime": "go",
            "backends": ["redis", "etcd"], "notes": []}"#;
        let handshake = Handshake {
            name: "ab".to_owned(),
            library: "x \"1\"".to_owned(),
            runtime: "go".to_owned(),
            backends: vec!["redis".to_owned(), "etcd".to_owned()],
        };
        assert_eq!(read(line), Ok(handshake));
    }

    #[test]
    fn what_is_none_is_refused() {
        for line in
            ["", "ready", "{", r#"{"name": "x"}"#, r#"{"name": "x", "backends": ["redis}"#, "{\"a"]
        {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
