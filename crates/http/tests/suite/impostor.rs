//! An impostor in the network that has seen a request.
use super::{script::Script, *};
use bytes::Bytes;
use tributary::Credential;
use tributary_core::TransferId;
use tributary_http::exchange::{ExchangeId, Frame, Kind, Message, ResponseHead};
use tributary_transport::messaging::{Destination, SendOptions};

/// The web server's side as played by a test: receives requests and answers manually.
struct Device(Messenger);

impl Device {
    fn open(world: &World, label: &str, names: &[&str]) -> Device {
        let names: Vec<_> = names.iter().map(|name| name.parse().unwrap()).collect();
        let api = node(world.folder.path(), label, ENDS, port(), Some(world.router));
        Device(Messenger::open(api, &names, MessengerOptions::default()).unwrap())
    }
    /// The next request, and the device that it is from.
    fn request(&self) -> (ExchangeId, String) {
        let mail = self.0.next(Duration::from_secs(20)).unwrap();
        let message = Message::decode(&mail.bytes).unwrap();
        assert!(matches!(message.kind, Kind::Open { .. }));
        (message.id, message.credential.device(&mail.publisher).unwrap())
    }
    fn answer(&self, id: ExchangeId, to: &str, credential: Credential, content: &str, more: u64) -> TransferId {
        let fields = vec![("content-length".to_string(), Bytes::from(content.len().to_string()))];
        let mut bytes = bytes::BytesMut::new();
        Frame::Response(ResponseHead { status: 200, reason: None, fields }).encode(&mut bytes);
        Frame::Data(Bytes::copy_from_slice(content.as_bytes())).encode(&mut bytes);
        let kind = Kind::Segment { number: 0, is_last: true, bytes: bytes.freeze() };
        let name = format!("/http/message/{more}").parse().unwrap();
        let message = Message { id, credential, kind }.encode();
        self.0.send(name, message, &Destination::Id(to.into()), &SendOptions::default()).unwrap()
    }
    fn wait(&self, transfer: TransferId) {
        let clock = Clock::new();
        while self.0.report(transfer).unwrap().is_some_and(|report| report.delivered.is_empty()) {
            assert!(clock.now() < Time::from_millis(20_000), "the message does not arrive");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn an_answer_is_taken_only_from_whom_the_request_was_delivered_to() {
    let world = world(Duration::from_secs(20));
    let server = Device::open(&world, "server", &["/http/other.example"]);
    let impostor = Device::open(&world, "impostor", &[]);
    let asks = thread::scope(|scope| {
        let ask = || world.raw("GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n");
        let mut asks = Vec::new();
        for round in 0..2 {
            let asking = scope.spawn(ask);
            let (id, browser) = server.request();
            // It knows this request, and is faster: with its own name, and with the server's.
            let own = impostor.answer(id, &browser, impostor.0.credential(), "lies", 10 * round);
            impostor.wait(own);
            let stolen = impostor.answer(id, &browser, server.0.credential(), "lies", 10 * round + 1);
            impostor.wait(stolen);
            server.answer(id, &browser, server.0.credential(), "truth", round);
            let got = asking.join().unwrap();
            assert_eq!(String::from_utf8_lossy(&got.body), "truth", "{got:?}");
            asks.push(id);
        }
        asks
    });
    // One id does not reveal the next.
    let [first, second] = [asks[0].0, asks[1].0].map(u128::from_be_bytes);
    let differing = (first ^ second).count_ones();
    assert!((24..104).contains(&differing), "{differing} of 128 bits differ");
}

#[test]
fn a_request_that_the_network_delivers_twice_is_carried_out_once() {
    let script = Script::of(&[]);
    let world = script.world(Timeouts::default());
    let device = Device::open(&world, "device", &[]);
    let send = |id: u8, copies: std::ops::Range<u8>| {
        let fields = vec![("host".to_string(), Bytes::from_static(b"site.example"))];
        let head = tributary_http::exchange::RequestHead { method: "POST".into(), target: format!("/{id}"), fields };
        let mut bytes = bytes::BytesMut::new();
        Frame::Request(head).encode(&mut bytes);
        let kind = Kind::Open { limit: 1 << 16, is_last: true, bytes: bytes.freeze() };
        let message = Message { id: ExchangeId([id; 16]), credential: device.0.credential(), kind }.encode();
        for copy in copies {
            let (name, to) =
                (format!("/http/message/{copy}"), Destination::Name("/http/site.example".parse().unwrap()));
            let sent = device.0.send(name.parse().unwrap(), message.clone(), &to, &SendOptions::default()).unwrap();
            device.wait(sent);
        }
    };
    send(1, 0..3);
    // The answer to a later request shows that the copies have been seen.
    send(2, 3..4);
    let answered = || Message::decode(&device.0.next(Duration::from_secs(60)).unwrap().bytes).unwrap().id;
    while answered() != ExchangeId([2; 16]) {}
    assert_eq!((script.count("/1"), script.count("/2")), (1, 1));
}
