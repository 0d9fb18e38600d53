package migrate

import (
	"testing"

	"remshell/job"
	"remshell/launch/control"
)

// Lines about a move name the user, and the node that alone vouches for the user.
func TestLinesNameTheUser(t *testing.T) {
	for says, prefix := range map[string]string{"": "", "n3": "n3 says: "} {
		by := control.Request{User: "bob", Role: job.RoleAdministrator, SayingNode: says}
		for want, got := range map[string]string{
			"the job was moved to n4 by bob (administrator) with --migrate":           movedText(by, "n4"),
			"the job moves to n4 after a checkpoint (bob (administrator), --migrate)": movingText(by, "the job moves to n4 after a checkpoint"),
		} {
			if got != prefix+want {
				t.Errorf("%s, want %s%s", got, prefix, want)
			}
		}
	}
}
