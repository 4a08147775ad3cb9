import { Argument, type Command, type Option } from 'commander';

/** Adds the command `completion`. Its script has the commands and options that the program has when the command runs. */
export function addCompletionCommand(program: Command): void {
  const name = program.name();
  program
    .command('completion')
    .description('print a completion script for bash or zsh')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS)))
    .addHelpText(
      'after',
      `
To complete in this shell:
  source <(npx ${name} completion bash)

To complete in each new shell, save the output in a file, and source the file in ~/.bashrc, or in ~/.zshrc
below compinit. The script completes the command ${name}, but not npx: define a function of this name
that calls npx.
  npx ${name} completion zsh > ~/.${name}.zsh
  ${name}() { npx ${name} "$@"; }`,
    )
    .action((shell: Shell) => {
      process.stdout.write(completionScript(program, shell));
    });
}

/** Returns a script that completes the commands, options and values of a program. */
export function completionScript(program: Command, shell: Shell): string {
  return SCRIPTS[shell](program, `_${program.name().replaceAll('-', '_')}`);
}

type Shell = keyof typeof SCRIPTS;
const SCRIPTS = { bash: bashScript, zsh: zshScript };

function bashScript(program: Command, name: string): string {
  const commands = commandsOf(program);
  const words = commands.map((command) => {
    const choices = command.registeredArguments.flatMap((each) =>
      choicesOf(program, command, each),
    );
    return `    ${command.name()}) words='${[...choices, ...flagsOf(command)].join(' ')}' ;;`;
  });
  const values = commands.flatMap((command) =>
    optionsOf(command)
      .filter(takesValue)
      .map((option) => {
        const flags = namesOf(option).map((flag) => `'${command.name()} ${flag}'`);
        return `    ${flags.join(' | ')}) ${bashValue(option)} ;;`;
      }),
  );
  return `# Completion of ${program.name()} for bash.
${name}() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} words='' i
  COMPREPLY=()
  # Bash 3.2 has no compopt, and offers file names where there is nothing else.
  compopt +o default 2>/dev/null
  for ((i = 2; i < COMP_CWORD; i++)); do
    [[ \${COMP_WORDS[i]} == -- ]] || continue
    # The words after -- are another command line.
    if declare -F _command_offset >/dev/null; then
      # A function of the package bash-completion.
      _command_offset $((i + 1))
    elif ((COMP_CWORD == i + 1)); then
      COMPREPLY=($(compgen -c -- "$current"))
    else
      compopt -o default 2>/dev/null
    fi
    return
  done
  # Bash splits --option=value into three words.
  if [[ $current == = ]]; then
    current=''
  elif [[ $previous == = ]]; then
    previous=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case "\${COMP_WORDS[1]} $previous" in
${values.join('\n')}
  esac
  if ((COMP_CWORD == 1)); then
    words='${[...commands.map((command) => command.name()), ...flagsOf(program)].join(' ')}'
  else
    case "\${COMP_WORDS[1]}" in
${words.join('\n')}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F ${name} ${program.name()}
`;
}

/** Returns the statements that complete the value of an option. */
function bashValue({ flags, argChoices }: Option): string {
  if (argChoices) {
    return `COMPREPLY=($(compgen -W '${argChoices.join(' ')}' -- "$current")); return`;
  }
  if (FILE.test(flags)) return 'compopt -o default 2>/dev/null; return';
  if (DIRECTORY.test(flags)) return 'compopt -o dirnames 2>/dev/null; return';
  return 'return';
}

function zshScript(program: Command, name: string): string {
  const commands = commandsOf(program);
  const descriptions = commands.map((command) =>
    quoted(`${command.name()}:${program.createHelp().subcommandDescription(command)}`),
  );
  const cases = commands.map((command) => {
    const specs = [...optionsOf(command).flatMap(zshOption), ...zshArguments(program, command)];
    return `    ${command.name()})
      _arguments -S ${specs.join(' \\\n        ')} ;;`;
  });
  return `#compdef ${program.name()}
# Completion of ${program.name()} for zsh.
${name}() {
  local curcontext=$curcontext state line
  typeset -A opt_args
  _arguments -C ${optionsOf(program).flatMap(zshOption).join(' ')} '(-): :->command' '(-)*:: :->arguments'
  case $state in
  command)
    local -a commands=(
      ${descriptions.join('\n      ')}
    )
    _describe command commands ;;
  arguments)
    case $words[1] in
${cases.join('\n')}
    esac ;;
  esac
}
# The file is sourced, or loaded from a directory of $fpath at the first completion.
if [[ $funcstack[1] == _* ]]; then
  ${name} "$@"
else
  compdef ${name} ${program.name()}
fi
`;
}

function zshOption(option: Option): string[] {
  const names = namesOf(option);
  const description = option.description.replace(/[[\]\\]/g, '\\$&');
  return names.map((flag) => {
    const others = names.length > 1 ? `(${names.join(' ')})` : '';
    const equals = takesValue(option) && flag.startsWith('--') ? '=' : '';
    const value = takesValue(option) ? `:${option.name()}:${zshValue(option)}` : '';
    return quoted(`${others}${flag}${equals}[${description}]${value}`);
  });
}

function zshValue({ flags, argChoices }: Option): string {
  if (argChoices) return `(${argChoices.join(' ')})`;
  if (FILE.test(flags)) return '_files';
  return DIRECTORY.test(flags) ? '_files -/' : ' ';
}

function zshArguments(program: Command, command: Command): string[] {
  const { registeredArguments } = command;
  // The words of another command line.
  if (registeredArguments.at(-1)?.variadic) return ["'*:::command:_normal'"];
  return registeredArguments.map((argument) =>
    quoted(`:${argument.name()}:(${choicesOf(program, command, argument).join(' ')})`),
  );
}

/** The placeholders of an option that takes a file or a directory. */
const FILE = /<file>/;
const DIRECTORY = /<dir(?:ectory)?>/;

const takesValue = (option: Option) => option.required || option.optional;
const commandsOf = (program: Command) => program.createHelp().visibleCommands(program);
const optionsOf = (command: Command) => command.createHelp().visibleOptions(command);
const namesOf = ({ short, long }: Option) => [short, long].filter((name) => name !== undefined);
const flagsOf = (command: Command) => optionsOf(command).flatMap(namesOf);

/** Returns the words that an argument can be. */
function choicesOf(program: Command, command: Command, argument: Argument): readonly string[] {
  if (command.name() === 'help') return commandsOf(program).map((each) => each.name());
  return argument.argChoices ?? [];
}

/** Returns a text as one word of a shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
