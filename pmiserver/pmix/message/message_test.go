package message_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
)

var (
	two     = []bfrops.Proc{{Namespace: "rs-1", Rank: 0}, {Namespace: "rs-1", Rank: bfrops.Wildcard}}
	timeout = bfrops.Info{Key: "pmix.timeout", Value: bfrops.Value{Type: bfrops.Uint32, Bytes: []byte{0, 0, 0, 9}}}
)

// A request that has no answer has none either when it makes no sense.
func TestARefusalOfDeregEventsIsMute(t *testing.T) {
	for command, want := range map[byte]bool{14: true, 13: false} {
		_, err := message.Parse([]byte{0, 0, 0, 1, command, 0, 0, 0, 1, 9})
		var refusal *message.Refusal
		if !errors.As(err, &refusal) || refusal.Mute != want || refusal.Status != message.Malformed {
			t.Errorf("command %d: %+v", command, err)
		}
	}
}

// Each command that is answered late, at once or never is one of pmix-wire.md 6; all others
// are not served.
func TestUnservedCommands(t *testing.T) {
	for number := range 256 {
		body := append(bfrops.AppendByte(nil, byte(number)), 0)
		_, err := message.Parse(body)
		var refusal *message.Refusal
		served := !errors.As(err, &refusal) || refusal.Status != message.NotSupported
		if want := number <= 16 || number == 18 || number == 24 || number == 28; served != want {
			t.Errorf("%s (%d) is served: %v", message.Name(byte(number)), number, served)
		}
	}
}

func TestOptions(t *testing.T) {
	value := func(t bfrops.Type, b ...byte) bfrops.Value { return bfrops.Value{Type: t, Bytes: b} }
	for _, test := range []struct {
		name string
		key  string
		v    bfrops.Value
		want any
		got  func(message.Options) any
	}{
		{"timeout of 4.x", "pmix.timeout", value(bfrops.Int, 0, 9, 0, 0, 2, 0x58), 600 * time.Second, func(o message.Options) any { return o.Timeout() }},
		{"timeout of 7.0", "pmix.timeout", value(bfrops.Uint32, 0, 0, 0, 1), time.Second, func(o message.Options) any { return o.Timeout() }},
		{"timeout below zero", "pmix.timeout", value(bfrops.Int8, 0xff), time.Duration(0), func(o message.Options) any { return o.Timeout() }},
		{"timeout that is a text", "pmix.timeout", bfrops.TextOf("9"), time.Duration(0), func(o message.Options) any { return o.Timeout() }},
		{"collect", "pmix.collect", bfrops.FlagOf(true), true, func(o message.Options) any { return o.Collect() }},
		{"collect without a value", "pmix.collect", bfrops.Value{}, true, func(o message.Options) any { return o.Collect() }},
		{"no collect", "pmix.collect", bfrops.FlagOf(false), false, func(o message.Options) any { return o.Collect() }},
		{"another key", "pmix.collected", bfrops.FlagOf(true), false, func(o message.Options) any { return o.Collect() }},
		{"immediate", "pmix.immediate", bfrops.FlagOf(true), true, func(o message.Options) any { return o.Immediate() }},
		{"a group's number", "pmix.grp.actxid", bfrops.FlagOf(true), true, func(o message.Options) any { return o.ContextID() }},
		{"wait for all", "pmix.wait", bfrops.FlagOf(true), waiting{0, true}, waits},
		{"wait for none", "pmix.wait", bfrops.FlagOf(false), waiting{0, false}, waits},
		{"wait for two", "pmix.wait", bfrops.Uint32Of(2), waiting{2, true}, waits},
		{"wait for zero, which is all", "pmix.wait", bfrops.Uint32Of(0), waiting{0, true}, waits},
		{"no word of waiting", "pmix.x", bfrops.Uint32Of(2), waiting{0, false}, waits},
		{"range", "pmix.range", value(bfrops.DataRange, 5), message.Everywhere, func(o message.Options) any { return o.Range() }},
		{"no range", "pmix.x", value(bfrops.DataRange, 5), message.InJob, func(o message.Options) any { return o.Range() }},
		{"persistence", "pmix.persist", value(bfrops.Persistence, 1), message.FirstRead, func(o message.Options) any { return o.Persistence() }},
	} {
		got := test.got(message.Options{{Key: test.key, Value: test.v}})
		if got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

type waiting struct {
	keys  int
	waits bool
}

func waits(o message.Options) any {
	keys, waits := o.Wait()
	return waiting{keys, waits}
}

func TestPublishedData(t *testing.T) {
	o := message.Options{{Key: "pmix.range"}, {Key: "svc", Value: bfrops.TextOf("port")}}
	want := []bfrops.Pair{{Key: "svc", Value: bfrops.TextOf("port")}}
	if got := o.Data(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// The keys of a commit are found, and its pairs are the bytes that were sent.
func TestCommitHasItsKeys(t *testing.T) {
	pairs := bfrops.AppendPair(bfrops.AppendPair(nil, "a", bfrops.TextOf("1")), "b", bfrops.Uint32Of(2))
	request, err := message.Parse(pmixtest.Encode(&message.Commit{Parts: []message.Part{{Scope: message.Remote, Pairs: pairs}}}))
	want := &message.Commit{Parts: []message.Part{{Scope: message.Remote, Pairs: pairs, Keys: []string{"a", "b"}}}}
	if err != nil || !reflect.DeepEqual(request, want) {
		t.Errorf("%+v, %v", request, err)
	}
}

// An answer that no client could read becomes a status (PMIX-23).
func TestFinish(t *testing.T) {
	reply := append(message.NewReply(101), make([]byte, message.MaxReply)...)
	if whole, fits := message.Finish(reply); !fits || len(whole) != len(reply) {
		t.Errorf("%d bytes of %d, %v", len(whole), len(reply), fits)
	}
	whole, fits := message.Finish(append(reply, 0))
	if h := header(t, whole); fits || h.Size != 8 || h.Tag != 101 || len(whole) != 24 {
		t.Errorf("%+v, %v", h, fits)
	}
}

// A group's answer is read by clients of three forms, each its own (PMIX-46).
func TestGroupAnswers(t *testing.T) {
	checked := 0
	for _, c := range pmixtest.Read(t).Conversations {
		major := 5
		if c.ID == "sess-7.0" {
			major = 7
		}
		for _, m := range c.Messages {
			if m.Is != "reply to GROUP_CONSTRUCT" {
				continue
			}
			checked++
			r := bfrops.NewReader(m.Body())
			r.Status()
			if got := message.AppendGroup(nil, major, r.Procs(), 200); string(got) != string(m.Body()) {
				t.Errorf("%s\n     %x\ngot: %x", c.ID, m.Body(), got)
			}
		}
	}
	if checked != 4 {
		t.Errorf("%d answers", checked)
	}
	if got := message.AppendGroup(nil, 4, two, 200); len(got) != 8+14 {
		t.Errorf("for 4.x %x", got)
	}
}
