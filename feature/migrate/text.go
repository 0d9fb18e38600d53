package migrate

import (
	"fmt"

	"remshell/launch/control"
)

// movedText returns the line that reports a completed move, which a user has requested. hosts is a folded list of the
// target hosts, such as n[1-3].
func movedText(r control.Request, hosts string) string {
	return r.WithNode(fmt.Sprintf("the job was moved to %s by %s with --migrate", hosts, r.DescribeUser()))
}

// movingText returns the line that reports a step of a move. action describes the step.
func movingText(r control.Request, action string) string {
	return r.WithNode(fmt.Sprintf("%s (%s, --migrate)", action, r.DescribeUser()))
}
