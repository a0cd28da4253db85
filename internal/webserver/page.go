package webserver

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
)

// Theme is the base of a page's style: light and dark colors, and elements that all pages have.
//
//go:embed theme.css
var Theme string

// Script is the base of a page's script: it defines the constant base. The page needs an element with the id tip.
//
//go:embed base.js
var Script string

// ReadPage returns an embedded file, which must exist.
func ReadPage(files embed.FS, name string) string {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(content)
}

// CSPSource returns the source expression that allows one inline script or style in a Content-Security-Policy.
func CSPSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
