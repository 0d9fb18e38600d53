package cli

// The words by which this program is started on a node, before any parsing. They are
// for nobody but us: no user's program can begin with them, since options do.
const (
	keeperArg = "--helper"       // on another host: the keeper, which starts the helper
	helperArg = "--helper-child" // the helper itself; on this host mpiexec is its keeper
	guardArg  = "--helper-guard" // who ends the ranks of an mpiexec that was killed
)

// IsHelper reports whether the first argument starts a helper or its keeper.
func IsHelper(arg string) bool {
	return arg == keeperArg || arg == helperArg || arg == guardArg || arg == relayArg
}
