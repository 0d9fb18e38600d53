//go:build linux

package helper

import (
	"encoding/binary"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

func TestSilence(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	w := &linkWatch{lastAnswered: start}
	for _, step := range []struct {
		at         int
		unanswered bool
		silent     time.Duration
	}{
		{15, false, 0},
		{30, true, 15 * time.Second}, // it acknowledged at 15
		{45, true, 30 * time.Second},
		{60, false, 0}, // it was only slow
		{75, true, 15 * time.Second},
		{90, true, 30 * time.Second},
		{105, true, 45 * time.Second},
	} {
		if got := w.silentFor(step.unanswered, at(step.at)); got != step.silent {
			t.Errorf("at %d: silent for %v, want %v", step.at, got, step.silent)
		}
	}
}

// tables returns a /proc whose connection is retransmitting or not.
func tables(repeats string) fstest.MapFS {
	line := "   1: 0100580A:0016 FEFF580A:E8CC 01 0:0 01:0 " + repeats + " 0 0 2307570 3\n"
	return fstest.MapFS{"proc/net/tcp": {Data: []byte(line)}}
}

func TestADeadLinkIsReported(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 { // the tables are from a little-endian machine
		return
	}
	for name, test := range map[string]struct {
		repeats, connection string
		silence             time.Duration
		dead                bool
	}{
		"dead":              {"00000005", "10.88.255.254 59596 10.88.0.1 22", 45 * time.Second, true},
		"alive":             {"00000000", "10.88.255.254 59596 10.88.0.1 22", 45 * time.Second, false},
		"not ours":          {"00000005", "10.88.255.254 59597 10.88.0.1 22", 45 * time.Second, false},
		"without SSH":       {"00000005", "", 45 * time.Second, false},
		"not to be watched": {"00000005", "10.88.255.254 59596 10.88.0.1 22", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSilentSession()
				defer close(s.done)
				defer s.conn.Abandon()
				sys := System{Root: tables(test.repeats), Environ: []string{"SSH_CONNECTION=" + test.connection}}
				watchLink(sys, test.silence, s)
				began := time.Now()
				select {
				case event := <-s.events:
					if took := time.Since(began); !test.dead || took != test.silence {
						t.Errorf("%#v after %v", event, took)
					}
				case <-time.After(time.Hour):
					if test.dead {
						t.Error("not noticed")
					}
				}
			})
		})
	}
}
