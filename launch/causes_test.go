package launch

import (
	"testing"

	"remshell/wire"
)

// Every event of PMI that a helper may report is a cause for supervision.
func TestEveryPMIEventIsACause(t *testing.T) {
	for event := wire.PMIAborted; event <= wire.PMIDisconnected; event++ {
		if pmiCauses[event] == 0 {
			t.Errorf("event %d is no cause", event)
		}
	}
}
