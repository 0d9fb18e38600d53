package migrate

import (
	"fmt"

	"remshell/launch/control"
)

// movedText returns the line which says that a user's request moves the job to other hosts. to is a folded
// host list.
func movedText(r control.Request, to string) string {
	return r.WithNode(fmt.Sprintf("the job was moved to %s by %s with --migrate", to, r.DescribeUser()))
}

// movingText returns the line about a step of a move. what says what the request does in this step.
func movingText(r control.Request, what string) string {
	return r.WithNode(fmt.Sprintf("%s (%s, --migrate)", what, r.DescribeUser()))
}
