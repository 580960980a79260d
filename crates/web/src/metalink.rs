//! Metalink 4 (RFC 5854), Metalink 3, and the equivalent fields of HTTP (RFC 6249): sizes, hashes, and addresses of
//! files.
use base64ct::{Base64, Encoding};
use reqwest::{Url, header::HeaderMap};
use roxmltree::{Document, Node, ParsingOptions};

use crate::checksum::{Algorithm, Checksum, Pieces};

/// Maximum bytes of a Metalink file.
pub const METALINK_BYTES_MAX: usize = 16 << 20;
/// Maximum files in it.
pub const FILES_MAX: usize = 10_000;
/// Maximum URLs of a file.
pub const URLS_MAX: usize = 64;
const NAMESPACE: &str = "urn:ietf:params:xml:ns:metalink";
const NAMESPACE_3: &str = "http://www.metalinker.org/";
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
    /// A description of the defect, and the listed file that has it.
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
        let listed = match root.tag_name().namespace() {
            Some(NAMESPACE) => root,
            Some(NAMESPACE_3) => child(root, "files"),
            _ => return Err("it is neither of Metalink 4 (RFC 5854) nor of Metalink 3".into()),
        };
        let files = children(listed, "file").map(read_file).collect::<Result<Vec<_>, _>>()?;
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
    let namespace = of.tag_name().namespace();
    of.children().filter(move |child| child.tag_name().name() == name && child.tag_name().namespace() == namespace)
}
/// The child element in which Metalink 3 has the data that Metalink 4 has in `of` itself.
fn child<'a, 'input: 'a>(of: Node<'a, 'input>, name: &'static str) -> Node<'a, 'input> {
    children(of, name).next().unwrap_or(of)
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
    let (hashes_of, urls_of) = (child(of, "verification"), child(of, "resources"));
    for hash in children(hashes_of, "hash") {
        let Some(algorithm) = hash.attribute("type").and_then(Algorithm::of_name) else { continue };
        let found = Checksum::parse(algorithm, text(hash)).map_err(wrong)?;
        if checksum.as_ref().is_none_or(|known| known.algorithm < algorithm) {
            checksum = Some(found);
        }
    }
    let mut pieces: Option<Pieces> = None;
    for list in children(hashes_of, "pieces") {
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
    for url in children(urls_of, "url") {
        let Ok(address) = text(url).parse::<Url>() else { return Err(wrong(format!("'{}' is no URL", text(url)))) };
        // Other schemes, such as ftp, are for other programs.
        if !matches!(address.scheme(), "http" | "https") {
            continue;
        }
        let number = |name| url.attribute(name).and_then(|number| number.parse::<u32>().ok());
        // Metalink 3 has preferences up to 100; the largest is best.
        let priority = number("priority").or_else(|| number("preference").map(|best| 101 - best.min(100)));
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

/// The description of a file in the fields of answers: its other addresses, and its checksum. RFC 6249.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Advertised {
    /// The best mirrors first.
    pub(crate) mirrors: Vec<MetalinkUrl>,
    /// The SHA-256 of the file.
    pub(crate) checksum: Option<Checksum>,
}
impl Advertised {
    /// Reads `Link: <URL>; rel=duplicate; pri=1; geo=de` (RFC 6249 §3), `Digest: SHA-256=…` (RFC 3230) and
    /// `Repr-Digest: sha-256=:…:` (RFC 9530). An encoded answer has the digest of its encoded bytes.
    pub(crate) fn read(&mut self, base: &Url, headers: &HeaderMap) {
        let texts = |name: &str| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        // A comma may be in an address, and no address has a `<` in it.
        for link in texts("link").flat_map(|text| text.split('<').skip(1)) {
            let Some((url, rest)) = link.split_once('>') else { continue };
            let field = |name: &str| {
                let mut fields = rest.split([';', ',']).filter_map(|field| field.split_once('='));
                fields
                    .find(|(key, _)| key.trim().eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.trim().trim_matches('"'))
            };
            let is_duplicate = field("rel").is_some_and(|rel| rel.eq_ignore_ascii_case("duplicate"));
            let url = base.join(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            if let Some(url) = url.filter(|_| is_duplicate && self.mirrors.len() < URLS_MAX) {
                let priority = field("pri").and_then(|number| number.parse().ok()).unwrap_or(PRIORITY_LAST);
                self.mirrors.push(MetalinkUrl { url, priority, location: field("geo").map(str::to_ascii_lowercase) });
            }
        }
        self.mirrors.sort_by_key(|mirror| mirror.priority);
        for digest in texts("digest").chain(texts("repr-digest")).flat_map(|text| text.split(',')) {
            let Some((name, value)) = digest.trim().split_once('=') else { continue };
            let bytes = Base64::decode_vec(value.trim_matches(':')).unwrap_or_default();
            if name.eq_ignore_ascii_case("sha-256") {
                self.checksum = Checksum::of_bytes(Algorithm::Sha256, bytes).or(self.checksum.take());
            }
        }
    }
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
    fn metalink_3_and_the_fields_of_answers_say_the_same() {
        let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let text = format!(
            "<metalink version='3.0' xmlns='{NAMESPACE_3}'><files><file name='a.iso'><size>5</size><verification>\
             <hash type='md5'>00</hash><hash type='sha256'>{digits}</hash><pieces length='4' type='sha256'><hash piece='0'>\
             {digits}</hash><hash piece='1'>{digits}</hash></pieces></verification><resources maxconnections='1'>\
             <url type='http' preference='90'>http://b/a</url><url type='http' location='DE' preference='100'>http://c/a</url>\
             </resources></file></files></metalink>"
        );
        let file = &Metalink::parse(text.as_bytes()).expect("legal").files[0];
        assert_eq!((file.name.as_str(), file.size), ("a.iso", Some(5)));
        assert_eq!(file.pieces.as_ref().map(|pieces| (pieces.length, pieces.hashes.len())), Some((4, 2)));
        let hosts = |urls: &[MetalinkUrl]| urls.iter().map(|url| url.url.to_string()).collect::<Vec<_>>();
        assert_eq!(hosts(&file.urls), ["http://c/a", "http://b/a"]);

        let fields = [
            ("link", "<http://b/a,1>; rel=duplicate; pri=2, <http://c/a>; rel=\"duplicate\"; pri=1; geo=de"),
            ("link", "<a.meta4>; rel=describedby; type=\"application/metalink4+xml\""),
            ("digest", "MD5=xx,SHA-256=ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
        ];
        let headers: HeaderMap = fields
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .into_iter()
            .collect();
        let mut read = Advertised::default();
        read.read(&"http://a/".parse().expect("a URL"), &headers);
        assert_eq!(hosts(&read.mirrors), ["http://c/a", "http://b/a,1"]);
        assert_eq!((&read.checksum, read.checksum.is_some()), (&file.checksum, true));
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
