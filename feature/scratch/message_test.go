package scratch

import (
	"testing"

	"remshell/launch/node/nodetest"
	"remshell/wire/wiretest"
)

// The frame of a report does not change.
func TestFrame(t *testing.T) {
	wiretest.CheckBytes(t, &ScratchLeft{Path: "/tmp/f", Why: "w"}, "65090c2f746d702f660277")
}

// A report comes once for each group, when ranks were started.
func TestStages(t *testing.T) {
	nodetest.CheckStages(t, nodetest.StageVerdicts{Kind: "ScratchLeft",
		//       connected greeted asked prepared running ending over left
		Stages: "early     early   early early    ok      ok     ok   dropped", Again: "twice"})
}
