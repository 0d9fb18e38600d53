//go:build race

package launch_test

func init() { underRace = true }
