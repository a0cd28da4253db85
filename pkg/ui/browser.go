package ui

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// openBrowser opens a URL in the browser if there is one. Call the returned function at the end. Other users can see arguments of
// processes, but not the file that leads the browser to the URL.
func openBrowser(ctx context.Context, url string) (end func()) {
	dir, err := os.MkdirTemp("", "kubectl-plimsoll-")
	if err != nil {
		return func() {}
	}
	end = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	if os.WriteFile(file, []byte(`<!doctype html><meta http-equiv="refresh" content="0;url=`+url+`">`), 0o600) != nil {
		return end
	}
	name, args := "xdg-open", []string{file}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", file}
	}
	browser := exec.CommandContext(ctx, name, args...)
	if browser.Start() == nil {
		go func() { _ = browser.Wait() }() // ends with ctx
	}
	return end
}
