package transcript

import (
	"testing"

	"remshell/launch/node/nodetest"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// The frame of a line does not change.
func TestFrame(t *testing.T) {
	wiretest.CheckBytes(t, &PMITrace{Rank: 0, Line: "forged"}, "2a08000c666f72676564")
}

// A line may come after the rank's exit, and names a rank of the node.
func TestStages(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "PMITrace",
		//       connected greeted asked prepared running ending over left
		Stages: "early     foreign early early    ok      ok     ok   dropped", Again: "ok", Foreign: "foreign"})
}

// A helper that was not asked for lines may send none.
func TestLinesThatWereNotAskedFor(t *testing.T) {
	v, _ := nodetest.NewStage(t, "running", func(m *wire.Prepare) { m.Settings = nil })
	if got := nodetest.Judge(v, &PMITrace{Rank: nodetest.Own}); got != "unasked" {
		t.Errorf("got %s", got)
	}
}
