package migrate

import (
	"fmt"

	"remshell/launch/control"
)

// movedText returns the line which says that a request moves the job. to is a folded host list.
func movedText(r control.Request, to string) string {
	return r.WithNode(fmt.Sprintf("moved to %s by %s with --migrate", to, r.DescribeUser()))
}

// movingText returns the line which says that a request does what, a step of a move.
func movingText(r control.Request, what string) string {
	return r.WithNode(fmt.Sprintf("%s (%s, --migrate)", what, r.DescribeUser()))
}
