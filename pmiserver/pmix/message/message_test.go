package message_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
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

// A malformed DEREGEVENTS has no reply either.
func TestRefusedDeregEventsHasNoReply(t *testing.T) {
	for command, want := range map[byte]bool{14: true, 13: false} {
		_, err := message.Parse([]byte{0, 0, 0, 1, command, 0, 0, 0, 1, 9})
		var refusal *message.Refusal
		if !errors.As(err, &refusal) || refusal.NoReply != want || refusal.Status != message.Malformed {
			t.Errorf("command %d: %+v", command, err)
		}
	}
}

// The table of commands equals that of pmix-wire.md 6: the same names, and the same commands are
// supported.
func TestCommandsOfThePage(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| ([0-9 -]+) \| ([^|]+) \| (no|6\.[0-9]+) \|`).FindAllStringSubmatch(page(t), -1)
	told := 0
	for _, row := range rows {
		names := strings.Split(row[2], ", ")
		for i, number := range numbers(t, row[1]) {
			told++
			_, err := message.Parse(append(bfrops.AppendByte(nil, number), 0))
			var refusal *message.Refusal
			served := !errors.As(err, &refusal) || refusal.Status != message.NotSupported
			if want := row[3] != "no"; served != want {
				t.Errorf("command %d is served: %v", number, served)
			}
			if name := message.Name(number); row[3] != "no" && name != names[i] {
				t.Errorf("command %d is called %s, on the page %s", number, name, names[i])
			}
		}
	}
	if told != 39 {
		t.Errorf("%d commands are on the page: this test reads it wrongly", told)
	}
	if _, err := message.Parse(append(bfrops.AppendByte(nil, 200), 0)); err == nil || err.Error() != "command 200: this command is not supported" {
		t.Errorf("of a command that is not on the page: %v", err)
	}
}

// page reads pmix-wire.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../doc/spec/pmix-wire.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// numbers decodes a list of numbers: 6 7 8, or 30-36.
func numbers(t *testing.T, text string) (list []uint8) {
	t.Helper()
	first, last, isRange := strings.Cut(text, "-")
	for _, word := range append(strings.Fields(first), strings.Fields(last)...) {
		n, err := strconv.ParseUint(word, 10, 8)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, uint8(n))
	}
	if isRange {
		for n := list[0] + 1; n < list[1]; n++ {
			list = append(list, n)
		}
	}
	return list
}

// The examples of pmix-wire.md 14 equal the bytes that we read and write. Those that end in dots are
// compared up to there.
func TestExamplesOfThePage(t *testing.T) {
	flag := func(key string, flags uint32) bfrops.Info {
		return bfrops.Info{Key: key, Flags: flags, Value: bfrops.FlagOf(true)}
	}
	all := bfrops.Proc{Namespace: "gompi-1", Rank: bfrops.Wildcard}
	status := func(s message.Status) []byte { return message.AppendStatus(nil, s) }
	for _, test := range []struct {
		name string
		hex  string // as in pmix-wire.md
		want []byte
	}{
		{"REQ", "00000001 00", pmixtest.Encode(&message.Req{})},
		{"job info", `00000001 00000008 676f6d70692d3100 \| 00000001 00000010 706d69782e7372762e6e737061636500 0003 0000000d 676f6d70692d73657276657200`,
			message.AppendJobInfo(nil, "gompi-1", bfrops.AppendPair(nil, "pmix.srv.nspace", bfrops.TextOf("gompi-server")))},
		{"REGEVENTS", `00000001 0d \| 00000001 000f 0000000000000000 \| 00000001 000f 0000000000000000`, pmixtest.Encode(&message.RegEvents{})},
		{"GET", `00000001 04 \| 00000001 00000008 676f6d70692d3100 \| 00000001 fffffffe \| 00000001 000f 0000000000000001 \| 00000001 0000000f 706d69782e696d6d65646961746500 00000002 0001 01 \| 00000001 0000000f 706d69782e68776c6f63786d6c3200`,
			pmixtest.Encode(&message.Get{Namespace: "gompi-1", Rank: bfrops.Wildcard, Options: message.Options{flag("pmix.immediate", 2)}, Key: "pmix.hwlocxml2"})},
		{"not found", "00000001 ffffffd2", status(message.NotFound)},
		{"FENCE", `00000001 03 \| 00000001 000f 0000000000000001 \| 00000001 00000008 676f6d70692d3100 fffffffe \| 00000001 000f 0000000000000001 \| 00000001 0000000d 706d69782e636f6c6c65637400 00000000 0001 01`,
			pmixtest.Encode(&message.Fence{Procs: []bfrops.Proc{all}, Options: message.Options{flag("pmix.collect", 0)}})},
		{"done", "00000001 00000000", status(message.Success)},
		{"reply to SPAWN", `00000001 00000000 \| 00000001 0000000a 72732d373233342d3200`, message.AppendSpawned(nil, "rs-7234-2")},
		{"ABORT", `00000001 01 \| 00000001 00000007 \| 00000001 00000004 77687900 \| 00000001 000f 0000000000000000`, pmixtest.Encode(&message.Abort{Code: 7, Message: "why"})},
	} {
		if !strings.Contains(page(t), "`"+test.hex) {
			t.Errorf("%s: the page has no %s", test.name, test.hex)
		}
		digits := strings.NewReplacer(" ", "", `\|`, "").Replace(test.hex)
		if got := fmt.Sprintf("%x", test.want); got != digits {
			t.Errorf("%s\n     %s\ngot: %s", test.name, digits, got)
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

// Keys are the keys of a commit, and Pairs the bytes that were sent.
func TestCommitHasItsKeys(t *testing.T) {
	pairs := bfrops.AppendPair(bfrops.AppendPair(nil, "a", bfrops.TextOf("1")), "b", bfrops.Uint32Of(2))
	request, err := message.Parse(pmixtest.Encode(&message.Commit{Parts: []message.CommitPart{{Scope: message.ScopeRemote, Pairs: pairs}}}))
	want := &message.Commit{Parts: []message.CommitPart{{Scope: message.ScopeRemote, Pairs: pairs, Keys: []string{"a", "b"}}}}
	if err != nil || !reflect.DeepEqual(request, want) {
		t.Errorf("%+v, %v", request, err)
	}
}

// A reply that is too large becomes a status (PMIX-23).
func TestFinish(t *testing.T) {
	reply := append(message.NewReply(101), make([]byte, message.MaxReply)...)
	if whole, fits := message.FinishReply(reply); !fits || len(whole) != len(reply) {
		t.Errorf("%d bytes of %d, %v", len(whole), len(reply), fits)
	}
	whole, fits := message.FinishReply(append(reply, 0))
	if h := header(t, whole); fits || h.Size != 8 || h.Tag != 101 || len(whole) != 24 {
		t.Errorf("%+v, %v", h, fits)
	}
}

// The reply to a GROUP_CONSTRUCT has three forms, each for other versions of clients (PMIX-46).
func TestGroupAnswers(t *testing.T) {
	checked := 0
	for _, c := range pmixtest.Read(t).Conversations {
		major := 5
		if c.ID == "sess-7.0" {
			major = 7
		}
		for _, m := range c.Messages {
			if m.Kind != "reply to GROUP_CONSTRUCT" {
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
