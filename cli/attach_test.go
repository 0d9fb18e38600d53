package cli

import (
	"testing"

	"remshell/batch"
	"remshell/job"
	"remshell/transport"
)

// The warning names the nodes that are not attached to the batch system's job, and only those that have ranks.
func TestWarningOfUnattachedNodes(t *testing.T) {
	a := &attacher{system: batch.Named("pbs"), job: "7", failed: map[string]string{"n1": "missing", "n2": "missing", "n3": "failed", "n9": "missing"}}
	nodes := []job.NodePlan{{Name: "n0"}, {Name: "n1"}, {Name: "n2"}, {Name: "n3"}}
	if got, want := a.warning(nodes), "warning: pbs_attach failed on n3 and pbs_attach was not found on n[1-2], so PBS will not account for ranks on these hosts"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := a.warning(nodes[:1]); got != "" {
		t.Error(got)
	}
	var none *attacher
	none.attach(transport.HelperBinary{}) // a nil attacher changes nothing
}
