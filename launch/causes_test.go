package launch

import (
	"testing"

	"remshell/wire"
)

// Whatever a helper may tell of PMI is a cause that supervision knows.
func TestEveryPMIEventIsACause(t *testing.T) {
	for event := wire.PMIAborted; event <= wire.PMIDisconnected; event++ {
		if pmiCauses[event] == 0 {
			t.Errorf("event %d is no cause", event)
		}
	}
}
