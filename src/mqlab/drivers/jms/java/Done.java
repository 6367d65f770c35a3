package mqlab.jms;

/** A piece of work that is done, by the ticket it was ordered with: with a result, or with why it failed. */
final class Done {
    final long ticket;
    final Object result;
    final String error;

    Done(long ticket, Object result, Throwable error) {
        this.ticket = ticket;
        this.result = result;
        this.error = error == null ? null : words(error);
    }

    /** What the innermost cause says, since those around it often only say that there is one. */
    static String words(Throwable error) {
        String said = said(error);
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            if (!said.contains(said(cause))) {
                said += " (" + said(cause) + ")";
            }
        }
        return said;
    }

    private static String said(Throwable error) {
        String message = error.getMessage();
        String name = error.getClass().getSimpleName();
        return message == null || message.isBlank() ? name : message.strip().replaceAll("\\s*\\n\\s*", "; ");
    }
}
