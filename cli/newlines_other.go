//go:build !linux

package cli

func keepNewlines(int) {}
