//go:build race

package spawn_test

func init() { underRace = true }
