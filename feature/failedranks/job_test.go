//go:build linux

package failedranks

import (
	"slices"
	"strings"
	"testing"

	"remshell/launch/launchtest"
)

func TestMain(m *testing.M) { launchtest.Main(m) }

// outliving returns a job whose rank 1 exits with 5 after PMI init, while the others go on
// (-disable-auto-cleanup) until PMI reports it. Rank 0 handles SIGUSR1, rank 2 does not.
func outliving(nodes ...string) *launchtest.Run {
	r := launchtest.NewRun(3, `
ask() { printf '%s\n' "$1" >&$PMI_FD; read -r line <&$PMI_FD; }
[ $PMI_RANK != 0 ] || trap 'echo signal; told=1' USR1
ask 'cmd=init pmi_version=1 pmi_subversion=1'
ask 'cmd=get key=PMI_dead_processes'
[ $PMI_RANK != 1 ] || exit 5
echo "first $line"
until [ "$line" = 'cmd=get_result rc=0 value=1' ]; do sleep 0.01; ask 'cmd=get key=PMI_dead_processes'; done
until [ $PMI_RANK != 0 ] || [ "$told" ]; do sleep 0.01; done
echo alive; ask 'cmd=finalize'`, nodes...)
	r.Req.EndPolicy.KeepAll = true
	return r
}

// -disable-auto-cleanup: a rank that exits within MPI ends no other rank. PMI reports the failed
// rank to the others. SIGUSR1 goes to a rank that handles it, and not to one that would die of it.
func TestRanksOutliveOne(t *testing.T) {
	launchtest.RecordJobs(t, "FailedRanks", func(s launchtest.Recording) { checkOutliving(s.T, s.Add(outliving("a:2", "b"))) })
}

func checkOutliving(t *testing.T, r *launchtest.Run) {
	t.Helper()
	result, err := r.Do(t)
	got := strings.Split(strings.TrimSuffix(r.Out.String(), "\n"), "\n")
	slices.Sort(got)
	got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "first ") }) // rank 1 may have ended by then
	if want := []string{"alive", "alive", "signal"}; err != nil || result.Code != 5 || !slices.Equal(got, want) {
		t.Errorf("code %d, %v, %q, stderr %q, want %q", result.Code, err, got, r.Err.String(), want)
	}
	if said := r.Err.String(); strings.Count(said, "rank 1 on a exited with code 5; the job continues with 2 ranks") != 1 {
		t.Errorf("the death is not reported once: %q", said)
	}
}
