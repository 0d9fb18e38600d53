package pmi1

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"remshell/pmiserver/spawn"
)

// Codes that old clients cannot read are left out.
func TestManyCodes(t *testing.T) {
	codes := make([]int, 600)
	for _, fault := range []int{0, 1} {
		codes[599] = fault
		if got, want := string(spawnReply(spawn.Result{Codes: codes})), "cmd=spawn_result rc=0\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A parsed request equals the one that was sent.
func FuzzSpawn(f *testing.F) {
	f.Add("/x/spawn", "a b", "wdir", "/scr", 2)
	f.Add("e", "", "foo", "b a=r;z", 1)
	f.Add(";;", "=;", "x;", ";=", 3)
	f.Fuzz(func(t *testing.T, program, arg, key, value string, count int) {
		if all := program + arg + key + value; strings.Contains(all, "\n") {
			return
		}
		want := spawn.Request{
			Commands: []spawn.Command{
				{Argv: []string{program, arg}, Count: count, Info: []spawn.Pair{{Key: key, Value: value}}},
				{Argv: []string{program}, Count: 1},
			},
			Preputs: []spawn.Pair{{Key: key, Value: value}},
		}
		if got := byLines(t, want); !reflect.DeepEqual(got, want) {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
	})
}

// byLines parses a request from the lines that a client would send.
func byLines(t *testing.T, r spawn.Request) spawn.Request {
	var b spawnBlock
	for i, c := range r.Commands {
		b.segment = make(spawn.Segment)
		add := func(key string, value any) { b.segment.AddField([]byte(key), fmt.Append(nil, value)) }
		add("nprocs", c.Count)
		add("execname", c.Argv[0])
		add("totspawns", len(r.Commands))
		add("spawnssofar", i+1)
		add("argcnt", len(c.Argv)-1)
		for n, arg := range c.Argv[1:] {
			add(fmt.Sprint("arg", n+1), arg)
		}
		addPairs(add, "preput_num", "preput_key_", "preput_val_", r.Preputs)
		addPairs(add, "info_num", "info_key_", "info_val_", c.Info)
		if last := b.endSegment(); last != (i+1 == len(r.Commands)) {
			t.Errorf("segment %d is the last: %v", i, last)
		}
	}
	if b.invalid {
		t.Errorf("%+v is refused", r)
	}
	return b.request
}

func addPairs(add func(string, any), count, key, value string, pairs []spawn.Pair) {
	add(count, len(pairs))
	for i, p := range pairs {
		add(fmt.Sprint(key, i), p.Key)
		add(fmt.Sprint(value, i), p.Value)
	}
}
