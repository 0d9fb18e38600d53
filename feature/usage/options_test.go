package usage

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/launch"
	"remshell/limits"
)

// A plain job is not sampled (RM-51). One with a limit is sampled often, one that is recorded in detail.
func TestSamplingFor(t *testing.T) {
	for _, test := range []struct {
		report   string
		recorded bool
		most     limits.Map
		want     *Sampling
	}{
		{"", false, nil, nil},
		{"", false, limits.Map{limits.NoFile: 1, limits.WallTime: 1}, nil},
		{"", false, limits.Map{limits.Mem: 1}, &Sampling{Often: true}},
		{"rank", false, nil, &Sampling{Report: "rank", SmallRanks: true}},
		{"", true, limits.Map{limits.NoFile: 1}, &Sampling{SmallRanks: true}},
		{"", true, limits.Map{limits.RankMem: 1}, &Sampling{Often: true, SmallRanks: true}},
	} {
		if got := samplingFor(test.report, test.recorded, test.most); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%q, %v, %v: got %+v, want %+v", test.report, test.recorded, test.most, got, test.want)
		}
	}
}

// Limits are given several times, in lists, and by a variable; the smallest of each counts. Each has its origin.
func TestLimitsOfTheLine(t *testing.T) {
	for _, test := range []struct {
		args, variable string
		want           limits.Map
		err            string
	}{
		{args: "a"},
		{args: "--limit mem=2gb,nofile=64 -n 1 a : --limit mem=1gb -n 1 b", want: limits.Map{limits.Mem: 1 << 30, limits.NoFile: 64}},
		{args: "--limit nofile=64 a", variable: "nofile=50", want: limits.Map{limits.NoFile: 50}},
		{args: "--limit nofile=32 a", variable: "nofile=50,walltime=2", want: limits.Map{limits.NoFile: 32, limits.WallTime: int64(2 * time.Second)}},
		{args: "--limit memory=1 a", err: `--limit: unknown limit "memory"`},
		{args: "--limit mem=30xb a", err: `--limit: mem: the value "30xb" is not valid`},
	} {
		from := option.Sources{Environ: []string{"MPIEXEC_LIMIT=" + test.variable}, Read: func(string) (string, error) { return "", nil }}
		line, err := option.Mpiexec(func(string) int { return 1 }).Parse(strings.Fields(test.args), from)
		if err != nil || test.err != "" {
			if !strings.HasPrefix(fmt.Sprint(err), test.err) || test.err == "" {
				t.Errorf("%s: %v, want %q", test.args, err, test.err)
			}
			continue
		}
		r := setup.Run{Line: line, Env: new(launch.Env)}
		if err := r.Begin(); err != nil {
			t.Fatal(err)
		}
		got, origins := r.Limits()
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.args, got, test.want)
		}
		for name := range test.want {
			if origins[name] != "--limit" {
				t.Errorf("%s: %s is from %q", test.args, name, origins[name])
			}
		}
	}
}

// Options that this feature no longer has are refused with what to use instead.
func TestRemovedOptions(t *testing.T) {
	for args, want := range map[string]string{"--usage-file f a": "--usage-file was removed", "--enforce-rm a": "--enforce-rm was removed"} {
		if _, err := option.Mpiexec(func(string) int { return 1 }).Parse(strings.Fields(args), option.Sources{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
