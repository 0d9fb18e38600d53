package message_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
)

func header(t testing.TB, m []byte) message.Header {
	t.Helper()
	h, err := message.ParseHeader([message.HeaderSize]byte(m))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Each recorded request of unmodified clients is decoded completely: encoded again, it is the same.
func TestEveryRequestReadsBack(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range pmixtest.Read(t).Conversations {
		for _, m := range c.Messages {
			if m.Dir != "C" || m.Kind == "handshake" {
				continue
			}
			if h := header(t, m.Hex); h.Size != len(m.Body()) || h.Tag < 101 {
				t.Errorf("%s, %s: header %+v of a body of %d bytes", c.ID, m.Kind, h, len(m.Body()))
			}
			request, err := message.Parse(m.Body())
			if err != nil {
				t.Errorf("%s, %s: %v", c.ID, m.Kind, err)
				continue
			}
			if name := message.Name(m.Body()[4]); name != m.Kind {
				t.Errorf("%s: a %s is taken for a %s", c.ID, m.Kind, name)
			}
			if again := pmixtest.Encode(request); !bytes.Equal(again, m.Body()) {
				t.Errorf("%s, %s\n     %x\ngot: %x", c.ID, m.Kind, m.Body(), again)
			}
			seen[m.Kind] = true
		}
	}
	if len(seen) < 17 {
		t.Errorf("only %d kinds of requests in all conversations", len(seen))
	}
}

// Requests that no recorded client sent can be encoded and decoded, too.
func TestRareRequestsReadBack(t *testing.T) {
	for _, want := range []message.Request{
		&message.Disconnect{Procs: two, Options: message.Options{timeout}},
		&message.Notify{Event: -402, Range: message.InJob, Infos: message.Options{timeout}},
		&message.Abort{Code: -1, Message: "why", Procs: two},
		&message.Commit{},
		&message.Get{Namespace: "rs-1", Rank: 3},
	} {
		got, err := message.Parse(pmixtest.Encode(want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\ngot: %+v, %v", want, got, err)
		}
	}
}

func TestHandshakes(t *testing.T) {
	majors := make(map[int]bool)
	for _, c := range pmixtest.Read(t).Conversations {
		for _, m := range c.Messages {
			if m.Dir != "C" || m.Kind != "handshake" {
				continue
			}
			size, err := message.ParseFirstHeader([message.HeaderSize]byte(m.Hex))
			if err != nil || size != len(m.Body()) {
				t.Fatalf("%s: a body of %d bytes: %d, %v", c.ID, len(m.Body()), size, err)
			}
			h, err := message.ParseHandshake(m.Body())
			if err != nil {
				t.Fatalf("%s: %v", c.ID, err)
			}
			if status, why := h.Refusal(h.UID); status != message.Success {
				t.Errorf("%s: refused, since it %s", c.ID, why)
			}
			if len(h.Namespace) < 6 || h.Namespace[:3] != "rs-" || h.Rank > 2 {
				t.Errorf("%s: rank %d of %q", c.ID, h.Rank, h.Namespace)
			}
			majors[h.Major()] = true
		}
	}
	if !reflect.DeepEqual(majors, map[int]bool{4: true, 5: true, 7: true}) {
		t.Errorf("clients of the major versions %v", majors)
	}
}

// Each hostile message is refused as in pmix-wire.md 3.3 and 10, as far as this package decides.
func TestHostileMessages(t *testing.T) {
	for _, h := range pmixtest.Read(t).Hostile {
		got := reaction(h)
		want, decided := expected(h)
		if decided && got != want {
			t.Errorf("%s, %s: %s, want %s", h.Stage, h.What, got, want)
		}
	}
}

// expected returns the expected result of a hostile message. It returns false if the result depends on
// the namespaces of a server.
func expected(h pmixtest.Hostile) (string, bool) {
	if n, ok := h.Status(); ok {
		return message.Status(n).String(), h.What != "unknown namespace"
	}
	return "no answer", true
}

func reaction(h pmixtest.Hostile) string {
	var first [message.HeaderSize]byte
	if copy(first[:], h.Hex) < len(first) {
		return "no answer"
	}
	if h.Stage == "handshake" {
		return shaken(first, h.Hex[len(first):])
	}
	head, err := message.ParseHeader(first)
	if err != nil || head.Size != len(h.Hex)-len(first) {
		return "no answer"
	}
	_, err = message.Parse(h.Hex[len(first):])
	var refusal *message.Refusal
	if !errors.As(err, &refusal) {
		return "no answer"
	}
	return refusal.Status.String()
}

func shaken(first [message.HeaderSize]byte, body []byte) string {
	if _, err := message.ParseFirstHeader(first); err != nil {
		return "no answer"
	}
	h, err := message.ParseHandshake(body)
	if err != nil {
		return "no answer"
	}
	status, _ := h.Refusal(0)
	return status.String()
}

// Headers and replies that are only a status equal the recorded ones.
func TestPlainAnswers(t *testing.T) {
	checked := 0
	for _, c := range pmixtest.Read(t).Conversations {
		for _, m := range c.Messages {
			if m.Dir != "S" || len(m.Hex) != message.HeaderSize+8 {
				continue
			}
			status := message.Status(binary.BigEndian.Uint32(m.Hex[20:]))
			got, fits := message.FinishReply(message.AppendStatus(message.NewReply(header(t, m.Hex).Tag), status))
			if !fits || !bytes.Equal(got, m.Hex) {
				t.Errorf("%s, %s\n     %x\ngot: %x", c.ID, m.Kind, []byte(m.Hex), got)
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("only %d answers of a status", checked)
	}
}

// Our replies equal the recorded ones that clients accepted.
func TestAnswersReadBack(t *testing.T) {
	again := map[string]func(r *bfrops.Reader, body []byte) []byte{
		"reply to REQ":     jobInfoAgain,
		"reply to GET":     knownAgain,
		"reply to CONNECT": connectedAgain,
		"reply to LOOKUP":  func(r *bfrops.Reader, _ []byte) []byte { return message.AppendFound(nil, r.Data()) },
		"reply to SPAWN":   func(r *bfrops.Reader, _ []byte) []byte { return message.AppendSpawned(nil, r.Namespace()) },
	}
	seen := make(map[string]int)
	for _, c := range pmixtest.Read(t).Conversations {
		for _, m := range c.Messages {
			write := again[m.Kind]
			if write == nil || len(m.Body()) == 8 {
				continue
			}
			r := bfrops.NewReader(m.Body())
			if m.Kind != "reply to REQ" && r.Status() != 0 {
				t.Errorf("%s, %s: a status and more: %x", c.ID, m.Kind, m.Body())
			}
			if got := write(r, m.Body()); !bytes.Equal(got, m.Body()) {
				t.Errorf("%s, %s\n     %x\ngot: %x", c.ID, m.Kind, m.Body(), got)
			}
			seen[m.Kind]++
		}
	}
	if len(seen) != len(again) {
		t.Errorf("only %v", seen)
	}
}

func jobInfoAgain(r *bfrops.Reader, body []byte) []byte {
	namespace := r.Namespace()
	return message.AppendJobInfo(nil, namespace, body[len(bfrops.AppendText(nil, namespace)):])
}

func knownAgain(r *bfrops.Reader, _ []byte) []byte {
	answer := message.AppendStatus(nil, message.Success)
	for r.More() {
		blob := r.Blob()
		of := bfrops.NewReader(blob).Proc()
		answer = message.AppendKnown(answer, of, blob[len(bfrops.AppendProc(nil, of)):])
	}
	return answer
}

func connectedAgain(r *bfrops.Reader, _ []byte) []byte {
	answer := message.AppendStatus(nil, message.Success)
	for r.More() {
		blob := r.Blob()
		namespace := bfrops.NewReader(blob).Namespace()
		answer = message.AppendConnected(answer, namespace, blob[len(bfrops.AppendText(nil, namespace)):])
	}
	return answer
}
