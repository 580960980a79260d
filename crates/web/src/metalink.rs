//! Metalink 4 (RFC 5854): files, sizes, hashes, and where they are.
use reqwest::Url;
use roxmltree::{Document, Node, ParsingOptions};

use crate::checksum::{Algorithm, Checksum, Pieces};

/// Bytes of a Metalink file at most.
pub const METALINK_BYTES_MAX: usize = 16 << 20;
/// Files in one at most.
pub const FILES_MAX: usize = 10_000;
/// URLs of a file at most.
pub const URLS_MAX: usize = 64;
const NAMESPACE: &str = "urn:ietf:params:xml:ns:metalink";
/// The priority of a URL without one: the lowest (RFC 5854 §4.2.16.1).
const PRIORITY_LAST: u32 = 999_999;

/// The files that a Metalink file lists.
#[derive(Clone, PartialEq, Debug)]
pub struct Metalink {
    /// In the order of the file.
    pub files: Vec<MetalinkFile>,
}

/// One file.
#[derive(Clone, PartialEq, Debug)]
pub struct MetalinkFile {
    /// Its name, perhaps with folders before it; never one that leads elsewhere.
    pub name: String,
    /// Its bytes.
    pub size: Option<u64>,
    /// The strongest hash of all of it.
    pub checksum: Option<Checksum>,
    /// The hashes of its pieces.
    pub pieces: Option<Pieces>,
    /// Where it is, best first.
    pub urls: Vec<MetalinkUrl>,
}

/// A place where a file is.
#[derive(Clone, PartialEq, Debug)]
pub struct MetalinkUrl {
    /// Its address.
    pub url: Url,
    /// 1 is best.
    pub priority: u32,
    /// The country, as two letters.
    pub location: Option<String>,
}

impl Metalink {
    /// Reads a Metalink file.
    ///
    /// # Errors
    /// What is wrong with it, and in which file that it lists.
    pub fn parse(bytes: &[u8]) -> Result<Metalink, String> {
        if bytes.len() > METALINK_BYTES_MAX {
            return Err(format!("it has {} bytes, more than {METALINK_BYTES_MAX}", bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text in UTF-8")?;
        let options = ParsingOptions { allow_dtd: false, nodes_limit: 4_000_000, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options).map_err(|error| format!("it is no XML: {error}"))?;
        let root = document.root_element();
        if root.tag_name().name() != "metalink" {
            return Err(format!("it begins with <{}>, not with <metalink>", root.tag_name().name()));
        }
        if root.tag_name().namespace() != Some(NAMESPACE) {
            return Err("it is not of Metalink 4 (RFC 5854)".into());
        }
        let files = children(root, "file").map(read_file).collect::<Result<Vec<_>, _>>()?;
        if files.is_empty() {
            return Err("it lists no file".into());
        }
        if files.len() > FILES_MAX {
            return Err(format!("it lists {} files, more than {FILES_MAX}", files.len()));
        }
        let mut names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("it lists '{}' twice", twice[0]));
        }
        Ok(Metalink { files })
    }
}

fn children<'a, 'input: 'a>(of: Node<'a, 'input>, name: &'static str) -> impl Iterator<Item = Node<'a, 'input>> {
    of.children().filter(move |child| child.has_tag_name((NAMESPACE, name)))
}
fn text<'a>(of: Node<'a, '_>) -> &'a str {
    of.text().unwrap_or_default().trim()
}

fn read_file(of: Node<'_, '_>) -> Result<MetalinkFile, String> {
    let name = of.attribute("name").unwrap_or_default();
    let wrong = |what: String| format!("file '{name}': {what}");
    let is_part = |part: &str| {
        !part.is_empty() && part != "." && part != ".." && !part.contains(|c: char| c.is_control() || c == '\\')
    };
    if name.starts_with(['/', '-']) || !name.split('/').all(is_part) {
        return Err(wrong("its name would lead elsewhere".into()));
    }
    let size = children(of, "size").next().map(|size| text(size).parse::<u64>());
    let size = size.transpose().map_err(|_| wrong("its size is no number".into()))?;
    let mut checksum: Option<Checksum> = None;
    for hash in children(of, "hash") {
        let Some(algorithm) = hash.attribute("type").and_then(Algorithm::of_name) else { continue };
        let found = Checksum::parse(algorithm, text(hash)).map_err(wrong)?;
        if checksum.as_ref().is_none_or(|known| known.algorithm < algorithm) {
            checksum = Some(found);
        }
    }
    let mut pieces: Option<Pieces> = None;
    for list in children(of, "pieces") {
        let Some(algorithm) = list.attribute("type").and_then(Algorithm::of_name) else { continue };
        let length = list.attribute("length").and_then(|length| length.parse().ok()).filter(|length| *length > 0);
        let length = length.ok_or_else(|| wrong("the length of its pieces is no positive number".into()))?;
        let hashes = children(list, "hash").map(|hash| Checksum::parse(algorithm, text(hash)).map_err(wrong));
        let hashes = hashes.collect::<Result<Vec<_>, _>>()?;
        if let Some(size) = size.filter(|size| size.div_ceil(length) != hashes.len() as u64) {
            let need = size.div_ceil(length);
            return Err(wrong(format!("{size} bytes are {need} pieces, and there are {} hashes", hashes.len())));
        }
        let better =
            pieces.as_ref().and_then(|known| known.hashes.first()).is_none_or(|hash| hash.algorithm < algorithm);
        if better && size.is_some() {
            pieces = Some(Pieces { length, hashes });
        }
    }
    let mut urls = Vec::new();
    for url in children(of, "url") {
        let Ok(address) = text(url).parse::<Url>() else { return Err(wrong(format!("'{}' is no URL", text(url)))) };
        // Other schemes, such as ftp, are for other programs.
        if !matches!(address.scheme(), "http" | "https") {
            continue;
        }
        let priority = url.attribute("priority").and_then(|number| number.parse().ok());
        let location = url.attribute("location").map(str::to_ascii_lowercase);
        urls.push(MetalinkUrl { url: address, priority: priority.unwrap_or(PRIORITY_LAST), location });
    }
    urls.sort_by_key(|url| url.priority);
    urls.truncate(URLS_MAX);
    if urls.is_empty() {
        return Err(wrong("it has no URL of http or https".into()));
    }
    Ok(MetalinkFile { name: name.into(), size, checksum, pieces, urls })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(file: &str) -> Result<Metalink, String> {
        Metalink::parse(format!("<?xml version='1.0'?><metalink xmlns='{NAMESPACE}'>{file}</metalink>").as_bytes())
    }

    #[test]
    fn the_example_of_the_standard_is_read() {
        let hash = "f0ad929cd259957e160ea442eb80986b5f01aa3c2b9a4e5c2d5d1f0c4b7e6a8d";
        let read = of(&format!(
            "<published>2009-05-15T12:23:23Z</published><file name='dir/example.ext'><size>14471447</size>\
             <identity>Example</identity><hash type='md5'>00</hash><hash type='sha-256'>{hash}</hash>\
             <pieces length='8000000' type='sha-256'><hash>{hash}</hash><hash>{hash}</hash></pieces>\
             <url>ftp://ftp.example.com/example.ext</url><url location='de' priority='2'>http://b.example/e</url>\
             <url location='US' priority='1'>https://a.example/e</url><metaurl mediatype='torrent'>http://t</metaurl></file>"
        ));
        let file = &read.expect("legal").files[0];
        assert_eq!((file.name.as_str(), file.size), ("dir/example.ext", Some(14_471_447)));
        assert_eq!(file.pieces.as_ref().map(|pieces| (pieces.length, pieces.hashes.len())), Some((8_000_000, 2)));
        let urls: Vec<_> = file.urls.iter().map(|url| (url.url.host_str(), url.location.as_deref())).collect();
        assert_eq!(urls, [(Some("a.example"), Some("us")), (Some("b.example"), Some("de"))]);
    }

    #[test]
    fn malformed_files_are_refused_with_the_reason() {
        let url = "<url>http://a/f</url>";
        for (file, reason) in [
            (String::new(), "lists no file"),
            (format!("<file name='../f'>{url}</file>"), "lead elsewhere"),
            (format!("<file name='/f'>{url}</file>"), "lead elsewhere"),
            (format!("<file name='a//f'>{url}</file>"), "lead elsewhere"),
            (format!("<file name='f'><size>big</size>{url}</file>"), "size is no number"),
            (format!("<file name='f'><hash type='sha-256'>00</hash>{url}</file>"), "64 hexadecimal digits"),
            (format!("<file name='f'><pieces type='sha-1' length='0'/>{url}</file>"), "no positive number"),
            (format!("<file name='f'><size>9</size><pieces type='sha-1' length='4'/>{url}</file>"), "are 3 pieces"),
            ("<file name='f'><url>ftp://a/f</url></file>".into(), "no URL of http"),
            ("<file name='f'><url>?</url></file>".into(), "is no URL"),
            (format!("<file name='f'>{url}</file><file name='f'>{url}</file>"), "twice"),
            ("<file".into(), "no XML"),
        ] {
            let error = of(&file).expect_err(&file);
            assert!(error.contains(reason), "{file}: {error}");
        }
        let bomb = "<!DOCTYPE x [<!ENTITY a 'b'>]><metalink/>";
        assert!(Metalink::parse(bomb.as_bytes()).expect_err("no entities").contains("no XML"));
        assert!(Metalink::parse(b"<metalink version='3.0'/>").expect_err("old").contains("Metalink 4"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let _ = Metalink::parse(&bytes);
            let whole = format!("<metalink xmlns='{NAMESPACE}'><file name='f'><size>1</size><url>http://a/</url></file></metalink>");
            let _ = Metalink::parse(&whole.as_bytes()[..cut.min(whole.len())]);
        }
    }
}
