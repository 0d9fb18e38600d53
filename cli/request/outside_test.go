package request

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"remshell/cli/option"
	"remshell/job"
)

// Hosts outside the batch job are refused, although ssh would reach them.
func TestHostsOutsideOfTheJobAreRefused(t *testing.T) {
	pbs := []string{"PBS_JOBID=12.server", "PBS_NODEFILE=/nodes"}
	lsf := []string{"LSB_JOBID=7", "LSB_MCPU_HOSTS=n1 2 n2 2", "LSB_HOSTS=n1 n1 n2 n2"}
	for name, test := range map[string]struct {
		environ []string
		hosts   string
		job     option.JobOptions
		want    string
	}{
		"hosts of PBS":         {pbs, "n1 n2", option.JobOptions{}, "<nil>"},
		"another of PBS":       {pbs, "n1 n3", option.JobOptions{}, "n3 is not a host of PBS job 12.server"},
		"two others":           {pbs, "n4 n3", option.JobOptions{}, "n[3-4] are not hosts of PBS job 12.server"},
		"LSF":                  {lsf, "n3", option.JobOptions{}, "n3 is not a host of LSF job 7"},
		"with a domain":        {lsf, "n2.example.org", option.JobOptions{}, "<nil>"},
		"this machine":         {lsf, "here", option.JobOptions{}, "<nil>"},
		"an address":           {lsf, "10.0.0.3", option.JobOptions{}, "<nil>"},
		"--allow-outside":      {pbs, "n3", option.JobOptions{AllowOutside: true}, "<nil>"},
		"-rmk none":            {pbs, "n3", option.JobOptions{RMK: "none"}, "<nil>"},
		"inside of a rank":     {append(pbs, "MPIEXEC_JOBID=1"), "n3", option.JobOptions{}, "<nil>"},
		"no batch system":      {nil, "n3", option.JobOptions{}, "<nil>"},
		"no list that is read": {[]string{"PBS_JOBID=1", "PBS_NODEFILE=/gone"}, "n3", option.JobOptions{}, "<nil>"},
	} {
		w := Inputs{Environ: test.environ, OpenFile: func(name string) (io.ReadCloser, error) {
			if name != "/nodes" {
				return nil, fs.ErrNotExist
			}
			return io.NopCloser(strings.NewReader("n1\nn1\nn2\n")), nil
		}}
		var req job.Request
		for host := range strings.FieldsSeq(test.hosts) {
			req.Nodes = append(req.Nodes, job.NodeDef{Name: host, Host: host, Local: host == "here"})
		}
		if got := fmt.Sprint(w.CheckOutside(req, test.job)); got != test.want {
			t.Errorf("%s: %s; want %s", name, got, test.want)
		}
	}
}
