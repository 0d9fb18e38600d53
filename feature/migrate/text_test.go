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
			"moved to n4 by bob (administrator) with --migrate":                   movedText(by, "n4"),
			"moving to n4: checkpoint asked for (bob (administrator), --migrate)": movingText(by, "moving to n4: checkpoint asked for"),
		} {
			if got != prefix+want {
				t.Errorf("%s, want %s%s", got, prefix, want)
			}
		}
	}
}
