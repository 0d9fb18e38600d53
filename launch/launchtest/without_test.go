//go:build linux

package launchtest

import (
	"testing"

	"remshell/job"
	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

func TestMain(m *testing.M) { Main(m) }

// Without the feature of spawning (this package imports none), a rank that spawns gets an error, and goes on.
func TestRanksCannotSpawnWithoutTheFeature(t *testing.T) {
	NewPMIRun(1, "spawn 1 leaf; say on", map[string]string{"leaf": "say leaf"}, "a:2").ExpectLines(t, "spawn failed: unsupported", "on")

	r := NewRun(1, "", "a:2")
	spawns := EncodeRequest(&message.Spawn{Programs: []bfrops.Program{{Command: "true", Args: []string{"true"}, Ranks: 1}}})
	r.Req.Apps = []job.App{{N: 1, Argv: []string{"/proc/self/exe", spawns}, Dir: "/", PMIOffer: job.PMIOfferPMIx}}
	r.Req.BaseEnv.Set = []string{PMIxMark + "=1"}
	r.ExpectLines(t, "status -47") // PMIX_ERR_NOT_SUPPORTED
}
