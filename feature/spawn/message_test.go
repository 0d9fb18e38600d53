package spawn

import (
	"encoding/hex"
	"testing"

	"remshell/pmiserver/spawn"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	for want, m := range map[string]wire.Message{
		"2620020ac3a90a006102020204026102620402026b04c3a902026502027002710266": &Spawn{ID: 1, Request: spawn.Request{Group: "é\n\x00a", Rank: 1, PMIx: true, Preputs: []spawn.Pair{{Key: "p", Value: "q"}},
			Commands: []spawn.Command{{Argv: []string{"a", "b"}, Count: 2, Info: []spawn.Pair{{Key: "k", Value: "é"}}, Env: []string{"e"}}}}, Fault: "f"},
		"2711040002f00614c3a90a0061c3a90a006100": &Spawned{ID: 2, Codes: []int{440}, Err: "é\n\x00aé\n\x00a"},
	} {
		if got := hex.EncodeToString(wire.Encode(m)); got != want {
			t.Errorf("%+v: got %s, want %s", m, got, want)
		}
	}
}

// A request starts from 1 to 2^24 ranks of each program.
func TestValuesOfRequests(t *testing.T) {
	of := func(count int, argv ...string) *Spawn {
		return &Spawn{Request: spawn.Request{Commands: []spawn.Command{{Argv: argv, Count: count}}}}
	}
	for _, count := range []int{1, 1 << 24} {
		if _, err, _ := wiretest.Receive(wire.Encode(of(count, "a")), wire.Launcher); err != nil {
			t.Errorf("%d ranks: %v", count, err)
		}
	}
	for _, test := range []struct {
		m    *Spawn
		want string
	}{{of(0, "a"), "count 0"}, {of(1<<24+1, "a"), "count 16777217"}, {of(1), "a command without a program"}} {
		if _, err, _ := wiretest.Receive(wire.Encode(test.m), wire.Launcher); !wiretest.IsInvalidValue(err, test.want) {
			t.Errorf("%+v: %v; want %s", test.m, err, test.want)
		}
	}
}
