package migrate

import (
	"fmt"

	"remshell/launch/control"
)

// movedText returns a line for the user about a completed step: a user's request moves the job to other
// hosts. hosts is a folded host list, such as n[1-3].
func movedText(r control.Request, hosts string) string {
	return r.WithNode(fmt.Sprintf("the job was moved to %s by %s with --migrate", hosts, r.DescribeUser()))
}

// movingText returns the line about a step of a move. action is what the request does in this step.
func movingText(r control.Request, action string) string {
	return r.WithNode(fmt.Sprintf("%s (%s, --migrate)", action, r.DescribeUser()))
}
