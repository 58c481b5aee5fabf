//! Header compression against the examples of RFC 7541.

use super::{Decoder, FieldKind, HpackError, TABLE_BYTES_MAX};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
        .collect()
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
    let mut fields = Vec::new();
    decoder.decode(block, &mut |_, name, value| {
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
        fields.push(format!("{}: {}", text(name), text(value)));
    })?;
    Ok(fields)
}

fn example(blocks: &[(&str, &[&str], usize)], limit: Option<usize>) {
    let mut decoder = Decoder::default();
    if let Some(limit) = limit {
        assert_eq!(limit, 256);
        // A size update to 256.
        decoded(&mut decoder, &[0x3f, 0xe1, 0x01]).unwrap();
    }
    for (hex, fields, size) in blocks {
        assert_eq!(decoded(&mut decoder, &bytes(hex)).unwrap(), *fields);
        assert_eq!(decoder.table_bytes(), *size);
    }
}

/// RFC 7541, appendix C.2.
#[test]
fn single_fields_of_the_standard_decode() {
    example(
        &[(
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            &["custom-key: custom-header"],
            55,
        )],
        None,
    );
    example(
        &[(
            "040c 2f73 616d 706c 652f 7061 7468",
            &[":path: /sample/path"],
            0,
        )],
        None,
    );
    example(
        &[(
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            &["password: secret"],
            0,
        )],
        None,
    );
    example(&[("82", &[":method: GET"], 0)], None);
}

const REQUESTS: [&[&str]; 3] = [
    &[
        ":method: GET",
        ":scheme: http",
        ":path: /",
        ":authority: www.example.com",
    ],
    &[
        ":method: GET",
        ":scheme: http",
        ":path: /",
        ":authority: www.example.com",
        "cache-control: no-cache",
    ],
    &[
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ],
];

/// RFC 7541, appendix C.3 and C.4.
#[test]
fn requests_of_the_standard_decode() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, huffman] {
        let sizes = [57, 110, 164];
        let all: Vec<_> = (0..3).map(|i| (blocks[i], REQUESTS[i], sizes[i])).collect();
        example(&all, None);
    }
}

const COOKIE: &str = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";

/// RFC 7541, appendix C.5 and C.6: a table of 256 bytes, so that entries are evicted.
#[test]
fn responses_of_the_standard_decode() {
    let first: &[&str] = &[
        ":status: 302",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ];
    let second: &[&str] = &[":status: 307", first[1], first[2], first[3]];
    let third: &[&str] = &[
        ":status: 200",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:22 GMT",
        "location: https://www.example.com",
        "content-encoding: gzip",
        COOKIE,
    ];
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
         6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
         3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for b in [plain, huffman] {
        example(
            &[(b[0], first, 222), (b[1], second, 222), (b[2], third, 215)],
            Some(256),
        );
    }
}

#[test]
fn malformed_header_blocks_are_errors() {
    for (block, error) in [
        (&[0x80][..], HpackError::Index),
        (&[0xbe], HpackError::Index),
        (&[0x7f, 0x00, 0x00], HpackError::Index),
        (&[0x40, 0x05, b'a'], HpackError::Cut),
        (&[0x40], HpackError::Cut),
        (&[0x82, 0x20], HpackError::TableSize),
        // 4,097 is one above the announced size.
        (&[0x3f, 0xe2, 0x1f], HpackError::TableSize),
        (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff], HpackError::Integer),
        (&[0x40, 0x81, 0x00, 0x00], HpackError::Huffman),
    ] {
        let mut decoder = Decoder::default();
        assert_eq!(decoded(&mut decoder, block), Err(error), "{block:02x?}");
    }
    // Two consecutive updates are allowed if the smaller one is first.
    assert_eq!(
        decoded(&mut Decoder::default(), &[0x20, 0x3f, 0xe1, 0x1f]),
        Ok(vec![])
    );
}

#[test]
fn the_table_stays_within_its_size() {
    let mut decoder = Decoder::default();
    for i in 0..10_000_u32 {
        let mut block = vec![0x40, 0x04];
        block.extend_from_slice(format!("{:04}", i % 10_000).as_bytes());
        block.extend_from_slice(&[0x01, b'v']);
        let mut kind = None;
        decoder
            .decode(&block, &mut |k, _, _| kind = Some(k))
            .unwrap();
        assert_eq!(kind, Some(FieldKind::Regular));
        assert!(decoder.table_bytes() <= TABLE_BYTES_MAX);
    }
    // 110 entries of 37 bytes fit.
    assert_eq!(decoder.table_bytes(), 110 * 37);
    // An entry larger than the table empties it.
    let mut block = vec![0x40, 0x01, b'a', 0x7f, 0x81, 0x1f];
    block.resize(block.len() + 4096, b'b');
    decoder.decode(&block, &mut |_, _, _| ()).unwrap();
    assert_eq!(decoder.table_bytes(), 0);
}
