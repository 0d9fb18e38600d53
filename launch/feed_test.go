//go:build linux

package launch_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"remshell/job"
	"remshell/launch/launchtest"
)

// Ranks of eight nodes read the same input, which is sent to each node once. One rank reads nothing
// and delays the others until it ends. One closes its input and goes on, one has ended before, and
// one stops in the middle.
func TestInputOfAllRanksGoesToANodeOnce(t *testing.T) {
	var nodes []string
	for name := range strings.SplitSeq("a b c d e f g h", " ") {
		nodes = append(nodes, name+":4")
	}
	read, over := filepath.Join(t.TempDir(), "read"), filepath.Join(t.TempDir(), "over")
	r := launchtest.NewRun(32, `await() { until test -e $1; do sleep 0.01; done; }
case $PMI_RANK in
5) await `+read+`;;
6) head -c 65536 >/dev/null; >`+read+`; wc -c; >`+over+`;;
9) exec 0<&-; await `+over+`;;
10) ;;
13) head -c 3;;
*) wc -c
esac`, nodes...)
	const size = 2_000_000
	r.Req.Streams.Stdin, r.In = job.AllRanks, strings.NewReader(strings.Repeat("0123456\n", size/8))
	s := launchtest.NewRecording(t)
	if result, err := s.Add(r).Do(t); err != nil || result.Code != 0 {
		t.Fatalf("code %d, %v: %s", result.Code, err, r.Err.String())
	}
	got := strings.Fields(strings.ReplaceAll(r.Out.String(), "012", ""))
	rest := slices.DeleteFunc(slices.Clone(got), func(n string) bool { return n == "2000000" })
	if len(got) != 28 || !slices.Equal(rest, []string{"1934464"}) || !strings.Contains(r.Out.String(), "012") {
		t.Errorf("ranks have read %v", got)
	}
	tape := s.Recorder.Recorded()
	if data, feeds := strings.Count(tape, "a > Data\n"), strings.Count(tape, "a > StdinBroadcast\n"); data > 0 || feeds < size>>16 {
		t.Errorf("the input of 4 ranks came to node a as %d Data and %d StdinBroadcast", data, feeds)
	}
}
