//! `--connect-to HOST:PORT:ADDR`: sends the requests of a URL to another address, as curl's option of
//! that name does.

use anyhow::bail;
use tare_load::host_port;
use tare_plan::load::Endpoint;

/// Where to connect instead of the host and port of some URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectTo {
    text: String,
    /// `None`: any host.
    host: Option<String>,
    /// `None`: any port.
    port: Option<u16>,
    /// Host, in brackets if it is an IPv6 address.
    to_host: String,
    /// `None`: the port of the URL.
    to_port: Option<u16>,
}

impl ConnectTo {
    /// Parses `HOST:PORT:ADDR`, where ADDR may have a port.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected HOST:PORT:ADDR, such as shop:80:10.0.0.7:8080; HOST and PORT are those of a URL (empty: any), an IPv6 address is in brackets";
        let parts = split(text).ok_or(expected)?;
        let (host, port, to_host, to_port) = match parts.as_slice() {
            [host, port, to_host] => (host, port, to_host, ""),
            [host, port, to_host, to_port] => (host, port, to_host, *to_port),
            _ => return Err(expected.to_owned()),
        };
        let number = |text: &str| match text {
            "" => Ok(None),
            _ => match text.parse::<u16>() {
                Ok(port) if port > 0 => Ok(Some(port)),
                _ => Err(format!("invalid port {text:?}: {expected}")),
            },
        };
        host_port(to_host, 1).map_err(|error| format!("{error}; {expected}"))?;
        Ok(Self {
            text: text.to_owned(),
            host: (!host.is_empty()).then(|| host.to_ascii_lowercase()),
            port: number(port)?,
            to_host: (*to_host).to_owned(),
            to_port: number(to_port)?,
        })
    }

    /// The address for a URL with this host and port; `None` if the option does not apply to it.
    fn of(&self, host: &str, port: u16) -> Option<String> {
        let host_fits = self.host.as_ref().is_none_or(|own| own == host);
        let fits = host_fits && self.port.is_none_or(|own| own == port);
        let to = || format!("{}:{}", self.to_host, self.to_port.unwrap_or(port));
        fits.then(to)
    }
}

/// The parts between colons; those in brackets do not count. `None` if a bracket is open.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            ':' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!inside).then_some(parts)
}

/// Applies the first option that fits to each endpoint without an address of its own.
///
/// # Errors
/// An option that fits no endpoint.
pub(super) fn apply(options: &[ConnectTo], endpoints: &mut [Endpoint]) -> anyhow::Result<()> {
    let mut used = vec![false; options.len()];
    for endpoint in endpoints {
        let Some((host, port)) = place(&endpoint.url) else {
            // The check of the URL reports it.
            continue;
        };
        let mut fitting = options.iter().enumerate();
        let found = fitting.find_map(|(i, o)| Some((i, o.of(&host, port)?)));
        let Some((index, to)) = found else {
            continue;
        };
        used[index] = true;
        endpoint.connect.get_or_insert(to);
    }
    match options.iter().zip(used).find(|(_, used)| !used) {
        Some((option, _)) => bail!(
            "--connect-to {} applies to no URL: expected HOST and PORT of one of them first, such as shop:80:10.0.0.7",
            option.text
        ),
        None => Ok(()),
    }
}

/// Host, in brackets if the URL has them, and port of a URL.
fn place(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let default = match scheme.eq_ignore_ascii_case("https") {
        true => 443,
        false => 80,
    };
    let (_, port) = host_port(authority, default).ok()?;
    let host = authority.strip_suffix(&format!(":{port}"));
    Some((host.unwrap_or(authority).to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(options: &[&str], urls: &[&str]) -> anyhow::Result<Vec<Option<String>>> {
        let parse = |text: &&str| ConnectTo::parse(text).map_err(anyhow::Error::msg);
        let options = options
            .iter()
            .map(parse)
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut all: Vec<Endpoint> = urls.iter().map(|url| Endpoint::get(*url)).collect();
        apply(&options, &mut all)?;
        Ok(all.into_iter().map(|e| e.connect).collect())
    }

    #[test]
    fn the_first_option_that_fits_gives_the_address() {
        let of = |option: &str, url: &str| {
            connected(&[option, "::spare:1"], &[url, "http://x/"])
                .unwrap()
                .remove(0)
        };
        for (option, url, expected) in [
            ("shop:80:10.0.0.7", "http://shop/a", "10.0.0.7:80"),
            ("Shop:80:10.0.0.7", "http://SHOP:80?q", "10.0.0.7:80"),
            (
                "shop:8080:10.0.0.7:15001",
                "http://shop:8080/",
                "10.0.0.7:15001",
            ),
            ("shop:443:[fe80::1%lo]:1", "https://shop/", "[fe80::1%lo]:1"),
            ("shop::[::1]", "http://shop:81/", "[::1]:81"),
            ("[::1]:81:other:", "http://[::1]:81/", "other:81"),
        ] {
            assert_eq!(of(option, url).as_deref(), Some(expected), "{option} {url}");
        }
        let both = connected(&["a:80:one", "::two"], &["http://a/", "http://b:9/"]).unwrap();
        assert_eq!(both, [Some("one:80".to_owned()), Some("two:9".to_owned())]);
    }

    #[test]
    fn an_address_of_the_endpoint_itself_has_priority() {
        let mut endpoint = Endpoint::get("http://shop/");
        endpoint.connect = Some("own:1".to_owned());
        apply(
            &[ConnectTo::parse("shop:80:other").unwrap()],
            std::slice::from_mut(&mut endpoint),
        )
        .unwrap();
        assert_eq!(endpoint.connect.as_deref(), Some("own:1"));
    }

    #[test]
    fn options_without_effect_and_invalid_ones_are_refused() {
        let error = connected(&["shop:81:10.0.0.7"], &["http://shop/"]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("shop:81:10.0.0.7 applies to no URL"),
            "{error}"
        );
        for wrong in [
            "shop",
            "shop:80",
            "shop:80:",
            "shop:x:h",
            "shop:80:h:0",
            "a:b:c:d:e",
            "shop:80:[::1",
            "shop:80:::1",
        ] {
            let error = ConnectTo::parse(wrong).unwrap_err();
            assert!(
                error.contains("expected HOST:PORT:ADDR"),
                "{wrong}: {error}"
            );
        }
    }
}
