# zsh -f complete.zsh SCRIPT LINE prints what a completion script offers at the end of a command line.
# A zsh on a pseudo terminal receives the line and a tab; its compadd also prints the matches.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT=; autoload -Uz compinit; compinit -D -u; source ${(q)1}"
zpty -w shell '
compadd() {
  local -a matches
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
    builtin compadd -A matches "$@"
    (( $#matches )) && printf "\nmatch %s" "$matches[@]"
  fi
  builtin compadd "$@"
}
complete-and-exit() { zle complete-word; print; exit }
zle -N complete-and-exit
bindkey "^I" complete-and-exit
print re""ady'
zpty -r shell output $'*ready\r\n*'
zpty -w -n shell "$2"$'\t'
while zpty -r shell line; do
  line=${line%$'\r\n'}
  [[ $line == 'match '* ]] && print -r -- ${line#match }
done
exit 0
